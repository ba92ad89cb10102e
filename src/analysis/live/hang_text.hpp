// From operations that stand still to who is to blame, in words.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/live/report.hpp"
#include "analysis/live/wait_graph.hpp"

namespace tracesmith::analysis::live {

struct HangContext {
  int64_t host_ns;  ///< a shorter wait for a process that works on its CPU is slow, not a hang
  const std::map<std::pair<uint64_t, std::string>, std::set<int64_t>>& sizes;  ///< usual ones
};

/// Fills in a verdict about operations of the graph that were found to stand still.
void describeHang(const WaitGraph& graph, const std::vector<const WaitGraph::Op*>& stuck, const HangContext& context,
                  HangVerdict& verdict);

}  // namespace tracesmith::analysis::live
