// What `tracesmith run` says on standard error when the command has ended.
#pragma once

#include <string>

#include "capture/collect/collector.hpp"

namespace tracesmith::cli {

struct RunSummary {
  std::string output;  ///< the trace
  bool per_step = false, watch = false, json = false;
};

void printSummary(const capture::CollectorStats& stats, const RunSummary& options);

}  // namespace tracesmith::cli
