// What a trace, or a master, knows of GPUs and how they are connected.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/api.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {

struct Device {
  std::string name, vendor;
  int64_t memory = trace::kNull;
};

struct Link {
  int64_t from, to;  ///< GPUs; kNull: not one
  std::string peer_node, kind;
  int64_t count = trace::kNull;
  double gbps;  ///< measured, or else stated; NaN: not known
  bool measured = false;
  bool operator==(const Link& other) const;
};

/// A network card, and where on PCIe GPUs are from it: PIX, PXB, PHB, NODE, SYS.
struct Nic {
  std::string name, kind, state;
  int64_t speed_mbit = trace::kNull;
  std::map<int64_t, std::string> nearness;  ///< by GPU
  bool operator==(const Nic&) const = default;
};

struct NodeTopology {
  std::map<int64_t, Device> gpus;
  std::vector<Link> links;
  std::vector<Nic> nics;
  bool simulated = false;
};
using Topology = std::map<std::string, NodeTopology>;  // by node

/// Links and NICs are recorded with a trace.
Result<Topology> topologyOf(const Timeline& timeline);
/// A master without a trace knows what its nodes told when they registered: GPUs and links, no NICs.
Topology topologyOf(const cluster::ClusterStatus& status);

std::string topologyJson(const Topology& topology);
/// A picture: nodes that are alike are drawn once. `recorded`: it is of a trace, so what is missing was not reported.
std::string topologySvg(const Topology& topology, bool recorded);

}  // namespace tracesmith::server
