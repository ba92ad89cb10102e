// The master's network side.
#pragma once

#include <memory>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

Result<std::unique_ptr<Server>> startMasterServer(const MasterOptions& options);

}  // namespace tracesmith::cluster
