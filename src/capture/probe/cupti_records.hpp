// One CUPTI record into one ring record.
#pragma once

#include <atomic>

#include "capture/probe/cupti_abi.hpp"
#include "capture/ring/writer.hpp"

namespace tracesmith::probe {

/// Where records come from.
struct CuptiSource {
  cupti::Functions functions;
  uint32_t version = 0;                     // of cuptiGetVersion: decides how long records are
  std::atomic<bool> waits_are_calls{true};  // there are no synchronisation records: the calls that wait stand for them
  int64_t to_raw_ns = 0;  // what to add to their times; CUPTI before 11.6 knows only the system's clock
};

void writeRecord(ring::RingWriter& r, const CuptiSource& source, const void* record);

}  // namespace tracesmith::probe
