// What `tracesmith run` (on standard error, when the command has ended) and `tracesmith record` say of a recording.
#pragma once

#include <functional>
#include <string>

#include "base/text.hpp"
#include "capture/collect/collector.hpp"

namespace tracesmith::cli {

struct RunSummary {
  std::string output;  ///< the trace
  bool per_step = false, watch = false, json = false;
};

/// "120 records of 2 processes, 40 kernels, 8 collectives".
std::string countsOf(const capture::CollectorStats& stats);
/// {"file", "processes", "records", "kernels", "collectives", "lost"}, and what `more` adds.
std::string jsonOf(const capture::CollectorStats& stats, const std::string& output,
                   const std::function<void(JsonWriter&)>& more = nullptr);
void printSummary(const capture::CollectorStats& stats, const RunSummary& options);

}  // namespace tracesmith::cli
