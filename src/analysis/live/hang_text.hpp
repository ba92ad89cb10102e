// From operations that stand still to who is to blame, in words.
#pragma once

#include <vector>

#include "analysis/live/verdict.hpp"
#include "analysis/live/wait_graph.hpp"

namespace tracesmith::analysis::live {

/// Fills in a verdict about operations of the graph that were found to stand still.
void describeHang(const WaitGraph& graph, const std::vector<const WaitGraph::Op*>& stuck, HangVerdict& verdict);

}  // namespace tracesmith::analysis::live
