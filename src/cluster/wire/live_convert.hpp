// Live reports and verdicts, and the messages that carry them.
#pragma once

#include "cluster/api.hpp"
#include "tracesmith_cluster.pb.h"

namespace tracesmith::cluster {

/// The metrics of a live report, those of every GPU in this order.
const std::vector<std::string>& liveMetricNames();

void toMessage(const analysis::live::NodeReport& report, LiveReport& message);
/// Bounded, whatever the message holds.
analysis::live::NodeReport fromMessage(const LiveReport& message);
void toMessage(const HangStatus& status, GetHangResponse& message);
HangStatus fromMessage(const GetHangResponse& message);

}  // namespace tracesmith::cluster
