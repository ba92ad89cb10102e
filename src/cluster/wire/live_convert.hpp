// What is special about live reports on their way.
#pragma once

#include "cluster/wire/convert.hpp"

namespace tracesmith::cluster {

/// The metrics of a live report, those of every GPU in this order.
const std::vector<std::string>& liveMetricNames();

/// An agent's report: of its metrics those we know, all of them, in our order.
model::NodeReport takeReport(const LiveReport& message);

}  // namespace tracesmith::cluster
