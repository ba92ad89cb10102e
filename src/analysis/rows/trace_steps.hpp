// The training steps of every rank.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/rows/names.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct RankStep {
  int64_t ts, end, step;  ///< raw ns of the rank's node
};

struct TraceSteps {
  std::map<int64_t, std::vector<RankStep>> by_process;      ///< by ts
  std::map<int64_t, int64_t> last_profiler_step;            ///< start of the last ProfilerStep#n of each process
  std::map<int64_t, std::vector<RankStep>> profiler_steps;  ///< those called ProfilerStep#n, by ts
  size_t profiler_names = 0;                                ///< distinct ProfilerStep#n of the trace

  bool windows = false;  ///< no steps were marked: these are stretches of time

  /// The rows of `steps`; where there are none, ranges called "step 12", "iteration 12", ….
  static Result<TraceSteps> load(const trace::Reader& reader, const Names& names);
  const std::vector<RankStep>& of(int64_t process) const;
};

}  // namespace tracesmith::analysis
