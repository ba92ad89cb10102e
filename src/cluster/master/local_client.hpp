// A client of the master in this process: what the HTTP side asks with, no network between. Its caller has checked who
// asks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/api.hpp"
#include "cluster/master/master.hpp"

namespace tracesmith::cluster {

using Invite = std::function<Result<std::string>(const std::string& address)>;

/// Thread safe, as the master is. The master must outlive it.
std::unique_ptr<Client> makeLocalClient(Master& master, Invite invite);

}  // namespace tracesmith::cluster
