// Our structs and the messages that carry them.
#pragma once

#include "cluster/api.hpp"
#include "cluster/wire/capture_span.hpp"
#include "tracesmith_cluster.pb.h"

namespace tracesmith::cluster {

namespace pb = ::tracesmith::cluster;

void toMessage(const SessionInfo& info, Session& message);
SessionInfo fromMessage(const Session& message);
void toMessage(const NodeStatus& status, NodeState& message);
NodeStatus fromMessage(const NodeState& message);
/// What a heartbeat says; the rest of the status stays empty.
NodeStatus fromMessage(const HeartbeatRequest& message);
void toMessage(const LiveEvent& event, pb::TraceEvent& message);
LiveEvent fromMessage(const pb::TraceEvent& message);
void toMessage(const CaptureSpan& span, Capture& message);

}  // namespace tracesmith::cluster
