// The training steps of every rank.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/rows/intervals.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

struct RankStep {
  int64_t ts, end, step;          ///< raw ns of the rank's node
  int64_t called = trace::kNull;  ///< when its host called the first operation, of a step found by them
};

/// How the steps of a trace are known, best first. `optimizer`: by the ranges of their optimizers. `windows`: they are
/// not, these are only stretches of time.
enum class StepSource : uint8_t { marks, optimizer, operations, kernels, windows, none };

/// Nobody marked them.
inline bool wereFound(StepSource s) { return s > StepSource::marks && s < StepSource::windows; }

constexpr size_t kMostEdges = 3;  ///< steps found on some ranks and not on others: where the recording began or ended

struct TraceSteps {
  std::map<int64_t, std::vector<RankStep>> by_process;      ///< by ts
  std::map<int64_t, int64_t> last_profiler_step;            ///< start of the last ProfilerStep#n of each process
  std::map<int64_t, std::vector<RankStep>> profiler_steps;  ///< those called ProfilerStep#n, by ts
  size_t profiler_names = 0;                                ///< distinct ProfilerStep#n of the trace
  std::map<int64_t, std::vector<Interval>> optimizers;  ///< where steps are known by them: each step has one, by time

  StepSource source = StepSource::none;
  bool try_kernels = false;  ///< better steps may be found in the kernels of each rank

  /// The rows of `steps`; where there are none, ranges called "step 12", "iteration 12", …; else those that torch
  /// calls "Optimizer.step#…". `marks` false: as if no steps were marked.
  static Result<TraceSteps> load(const trace::Reader& reader, const trace::NameNumbers& names, bool marks = true);
  const std::vector<RankStep>& of(int64_t process) const;
};

}  // namespace tracesmith::analysis
