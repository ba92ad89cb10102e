// Markers in a trace that say when the GPU's work of a process is recorded. A trace that begins without one has it from
// its beginning.
#pragma once

#include <string_view>

namespace tracesmith::model {

constexpr std::string_view kGpuOn = "tracesmith: GPU records on", kGpuOff = "tracesmith: GPU records off";

}  // namespace tracesmith::model
