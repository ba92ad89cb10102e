// A user's side of the service.
#pragma once

#include <memory>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

Result<std::unique_ptr<Client>> connectClient(const ClientOptions& options);

}  // namespace tracesmith::cluster
