// The critical path of one rank as Holistic Trace Analysis finds it: the longest chain of host calls, launches and
// kernels within a range.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct HtaPathOptions {
  int64_t rank = trace::kNull;  ///< kNull: the first of the trace
  std::string range;            ///< name of the annotation; empty: ProfilerStep#n or step, the middle one
  int instance = 0;             ///< which of the ranges of that name, by time
};

struct HtaPath {
  int64_t rank = trace::kNull;
  std::string range;
  int instance = 0;
  size_t graph_nodes = 0, graph_edges = 0;
  size_t nodes = 0, events = 0, edges = 0;  ///< on the path
  int64_t weight_us = 0;
  std::map<std::string, int64_t> bound_by;  ///< µs by cpu_bound, kernel_launch_overhead, …
  struct Step {
    std::string name;
    std::string kind;  ///< operator, kernel, launch, kernel_kernel, dependency, sync
    int64_t weight_us;
  };
  std::vector<Step> path;  ///< edges with a weight, in order
};

TRACESMITH_API Result<HtaPath> htaCriticalPath(const trace::Reader& reader, const HtaPathOptions& options);

}  // namespace tracesmith::analysis
