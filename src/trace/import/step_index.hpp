// Which training step a host event (by its time) or a device event (by the correlation of its launch) belongs to.
// HTA's rule. Memory grows with the number of steps, not of events.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

class StepIndex {
 public:
  /// Steps in the order of the file: where two overlap, the later one wins.
  void add(int64_t ts, int64_t dur, int64_t step);
  bool empty() const { return steps_.empty(); }
  /// After the last add(), before at().
  void seal();

  /// Step that was running at `ts`, or kNull.
  int64_t at(int64_t ts) const;

  /// A launch happened in `step` (or kNull: in none).
  void launch(int64_t correlation, int64_t step);
  /// Step of the launch, or kNull.
  int64_t ofLaunch(int64_t correlation) const;

 private:
  struct Span {
    int64_t from, to, step;
  };
  struct Run {
    int64_t last, step;
  };
  std::vector<Span> steps_;     // as added
  std::vector<Span> segments_;  // disjoint, by time
  // Correlations grow with time, so launches of one step are runs; by their first correlation. A run may cover
  // correlations nobody named; one that is named later cuts it.
  std::map<int64_t, Run> runs_;
};

}  // namespace tracesmith::trace
