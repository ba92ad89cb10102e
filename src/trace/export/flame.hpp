// Stacks that were counted, as a tree of calls, and the files that show it: an interactive flame graph (SVG),
// speedscope, collapsed stacks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/stack_counts.hpp"

namespace tracesmith::trace {

struct FlameOptions {
  bool lines = false;       ///< one function is a frame for each of its lines
  bool per_rank = false;    ///< below a frame for its rank (or process)
  bool per_thread = false;  ///< below a frame for its thread
  bool idle = false;        ///< also threads that did nothing all the time
  std::optional<StackCounts::State> only = {};
  std::vector<int64_t> ranks = {};                          ///< empty: all
  std::optional<std::pair<int64_t, int64_t>> compare = {};  ///< ranks
};

/// A call and what it called. Recursion is one call.
struct FlameNode {
  uint32_t name = 0, parent = 0;
  std::array<uint64_t, 2> self{}, total{};  ///< samples: on-CPU and waiting, or of the two ranks that are compared
  std::vector<uint32_t> below;
  uint64_t all() const { return total[0] + total[1]; }
};

struct FlameTree {
  std::vector<FlameNode> nodes;    ///< the first is the root
  std::vector<std::string> names;  ///< "step (train.py)"
  std::optional<std::pair<int64_t, int64_t>> compared;
  std::array<double, 2> looks{};  ///< of the compared ranks: what their samples are divided by
  uint64_t idle_threads = 0;      ///< left out
  const FlameNode& root() const { return nodes[0]; }
};

/// Fails if nothing is left, or a rank is not there.
Result<FlameTree> flameTree(const StackCounts& counts, const FlameOptions& options);

/// What one function did, over all places that called it.
struct FunctionTime {
  uint32_t name = 0;
  std::array<uint64_t, 2> self{}, total{};
};
std::vector<FunctionTime> functionTimes(const FlameTree& tree);

/// Text around a drawing; `note`: what is missing from it.
struct FlameCaption {
  std::string title, subtitle, note;
};

std::string flameSvg(const FlameTree& tree, const FlameCaption& caption);
/// Of two ranks: one profile for each.
std::string speedscope(const FlameTree& tree, const FlameCaption& caption);
/// "a;b;c 12" on each line; of two ranks both numbers.
std::string collapsedStacks(const FlameTree& tree);

}  // namespace tracesmith::trace
