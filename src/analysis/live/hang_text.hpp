// From operations that stand still to who is to blame, in words.
#pragma once

#include <vector>

#include "analysis/live/verdict.hpp"
#include "analysis/live/wait_graph.hpp"

namespace tracesmith::analysis::live {

/// Fills in a verdict about operations of the graph that were found to stand still. A wait shorter than `host_ns` for a
/// process that works on its CPU is slow, not a hang.
void describeHang(const WaitGraph& graph, const std::vector<const WaitGraph::Op*>& stuck, int64_t host_ns,
                  HangVerdict& verdict);

}  // namespace tracesmith::analysis::live
