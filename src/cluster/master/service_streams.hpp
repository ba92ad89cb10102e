// The calls of the service that last: an agent's connection, and a client that follows events.
#pragma once

#include <string>

#include "cluster/master/master.hpp"
#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {

using LinkStream = grpc::ServerBidiReactor<pb::AgentMessage, pb::MasterMessage>;
using EventsStream = grpc::ServerWriteReactor<pb::TraceEvent>;

// Each deletes itself when its call ends. A refusal that is not OK ends it at once.
LinkStream* serveLink(Master& master, const std::string& node, const grpc::Status& refusal);
EventsStream* serveEvents(EventStream& events, const pb::StreamEventsRequest& request, const grpc::Status& refusal);

}  // namespace tracesmith::cluster
