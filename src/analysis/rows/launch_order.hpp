// The kernels of a rank in the order its host launched them: where a step ends, and which phase a kernel belongs to,
// in traces that mark neither.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/rows/launches.hpp"
#include "analysis/rows/phases.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "analysis/rows/trace_steps.hpp"

namespace tracesmith::analysis {

/// Whether an optimizer launches kernels of this name.
bool isOptimizerKernel(std::string_view name);

/// What one call launched: a kernel, or all those of a graph.
struct Launched {
  int64_t called;   ///< when the host launched it; its start where that is not known
  int64_t ts, end;  ///< on the device
  uint32_t name;
  int32_t thread;  ///< −1: not known
  uint32_t call;   ///< index in RankRows::calls, where calls are known
  bool optimizer;
};

/// Where launches are not in the trace: the kernels of the busiest stream, by start. `optimizer`: by name.
struct LaunchOrder {
  bool calls_known = false;
  std::vector<Launched> kernels;
  LaunchOrder(const RankRows& rows, const Launches& launches, const std::vector<uint8_t>& optimizer);

  /// From the end of one optimizer to the end of the next, where its ranges on the host are known. `from`: the first
  /// that is known of the rank.
  std::vector<RankStep> stepsBetween(const std::vector<Interval>& optimizers, int64_t from) const;
  /// The same by the names of kernels. Empty: there is none, or it does not come regularly.
  std::vector<RankStep> optimizerSteps() const;
  /// By kernels that repeat themselves.
  std::vector<RankStep> repeatedSteps() const;
  /// Steps that were found by the operations of the rank begin where the optimizer of the step before ends. Nothing:
  /// they have not one optimizer each.
  std::optional<std::vector<RankStep>> atOptimizer(const std::vector<RankStep>& steps) const;
  /// The phase of what each call launched: torch launches the backward pass on another thread than the rest, and after
  /// it comes the optimizer. Empty: one thread launches everything, or there is no optimizer, neither
  /// by its kernels nor marked.
  std::vector<Phase> phases(size_t calls, const PhaseTimeline& marked) const;
};

}  // namespace tracesmith::analysis
