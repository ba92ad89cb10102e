// Markers in a trace that say when the GPU's work of a process is recorded. A trace that begins without one has it from
// its beginning. And the key in `metadata` under which watch mode gives an account of itself.
#pragma once

#include <string_view>

namespace tracesmith::model {

constexpr std::string_view kGpuOn = "tracesmith: GPU records on", kGpuOff = "tracesmith: GPU records off";
/// A marker at the end of a recording in which operations had not ended: a hang, if they had waited for long.
constexpr std::string_view kEndsInFlight = "recording ends, operations in flight";
/// JSON, a row for each process and change; the last one holds:
/// {"window_steps":2,"window_every":200,"window_asked":100,"budget_percent":1,"cost_percent":0.41}
constexpr std::string_view kWatchKey = "watch.cost";

}  // namespace tracesmith::model
