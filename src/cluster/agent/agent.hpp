// An agent: everything a node contributes to a cluster.
#pragma once

#include <memory>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

Result<std::unique_ptr<Server>> startAgentServer(const AgentOptions& options);

}  // namespace tracesmith::cluster
