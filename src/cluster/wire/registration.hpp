// What an agent says about its node when it registers with a master.
#pragma once

#include <string>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::cluster {

struct NodeRegistration {
  std::string node, hostname, agent_id, boot_id, version, address;
  std::vector<DeviceStatus> gpus;
};

}  // namespace tracesmith::cluster
