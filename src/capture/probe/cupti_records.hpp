// One CUPTI record into one ring record.
#pragma once

#include "capture/probe/cupti_abi.hpp"
#include "capture/ring/writer.hpp"

namespace tracesmith::probe {

void writeRecord(ring::RingWriter& r, const cupti::Functions& cupti, const void* record);

}  // namespace tracesmith::probe
