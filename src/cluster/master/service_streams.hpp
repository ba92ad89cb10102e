// The calls of the service that last: an agent's connection, and a client that follows events.
#pragma once

#include <functional>
#include <string>

#include "cluster/master/master.hpp"
#include "cluster/rpc/rpc.hpp"

namespace tracesmith::cluster {

using LinkStream = grpc::ServerBidiReactor<pb::AgentMessage, pb::MasterMessage>;
using EventsStream = grpc::ServerWriteReactor<pb::TraceEvent>;

using LaunchStream = grpc::ServerBidiReactor<pb::LaunchControl, pb::LaunchEvent>;
using RanksStream = grpc::ServerBidiReactor<pb::RankEvent, pb::RankOrder>;

// Each deletes itself when its call ends. A refusal that is not OK ends it at once.
LinkStream* serveLink(Master& master, const std::string& node, const grpc::Status& refusal);
/// `audit`: what was launched, and whether.
LaunchStream* serveLaunch(Master& master, std::function<void(const std::string& what, const Status& outcome)> audit,
                          const grpc::Status& refusal);
RanksStream* serveRanks(Master& master, const std::string& node, const grpc::Status& refusal);
EventsStream* serveEvents(EventStream& events, const pb::StreamEventsRequest& request, const grpc::Status& refusal);

}  // namespace tracesmith::cluster
