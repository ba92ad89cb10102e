// What CUDA graphs replay, by the modules that it was captured in.
#pragma once

#include <map>
#include <vector>

#include "analysis/verdict/module_names.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// One launch of a graph.
struct Replay {
  int64_t step = trace::kNull;  // in which it ran, which may be a later one than that of its launch
  int64_t turn = 0;             // how often its graph was launched before
  int64_t graph = trace::kNull;
  std::map<ModuleInPass, int64_t> parts;  // ns, of a module with all in it
};

/// Those of one process.
class Replays {
 public:
  struct Step {
    int64_t ts, end, step;
  };
  std::map<int64_t, Replay> launches;  // by correlation
  std::vector<Step> steps;             // by time; those that were begun and not ended are none

  /// The step of a time on the host; kNull: none.
  int64_t stepAt(int64_t ts) const;
};

/// Adds modules that were only captured. By process; `comm`: names of kernels that communicate, which belong to no
/// module.
Status readReplays(const trace::Reader& reader, const trace::NameNumbers& names, const std::vector<uint8_t>& comm,
                   ModuleNames& modules, std::map<int64_t, Replays>& out);

}  // namespace tracesmith::analysis
