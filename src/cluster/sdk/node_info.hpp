// What a node's status says, as the public API puts it.
#pragma once

#include "cluster/api.hpp"
#include "tracesmith/cluster/node_aggregator.hpp"

namespace tracesmith::cluster {

/// Without its address, which each side knows by another name.
NodeInfo infoOf(const NodeStatus& status);
/// What the status says, over what is known of a capture.
NodeAggregator::Statistics statisticsOf(const NodeStatus& status, NodeAggregator::Statistics capture = {});

}  // namespace tracesmith::cluster
