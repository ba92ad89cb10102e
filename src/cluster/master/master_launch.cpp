// Which rank of a launched job runs on which node and GPU.
#include <algorithm>

#include "access/names.hpp"
#include "base/count.hpp"
#include "cluster/master/master.hpp"

namespace tracesmith::cluster {
namespace {

constexpr uint32_t kMostPerNode = 1024;
constexpr double kMostGrace = 3600;

/// Under which name the other ranks find a node.
std::string hostOf(const NodeDescription& node, bool others_elsewhere) {
  const Result<access::Address> address = access::parseAddress(node.address, kAgentPort);
  if (!address) return node.hostname;
  return access::isLoopback(address->host) && others_elsewhere ? node.hostname : address->host;
}

bool onLoopback(const NodeDescription& node) {
  const Result<access::Address> address = access::parseAddress(node.address, kAgentPort);
  return address && access::isLoopback(address->host);
}

}  // namespace

Result<LaunchPlan> Master::planLaunch(const pb::LaunchRequest& request) const {
  if (request.command().empty()) return Status::invalid("there is no command to start");
  if (request.per_node() > kMostPerNode)
    return Status::invalid("a node runs at most " + std::to_string(kMostPerNode) + " ranks");
  if (request.master_port() == 0 || request.master_port() > 65535) return Status::invalid("there is no such port");
  if (!(request.grace_s() >= 0 && request.grace_s() <= kMostGrace))
    return Status::invalid("the grace time must be between 0 and 3600 seconds");
  std::vector<NodeDescription> nodes;
  {
    std::lock_guard lock(mutex_);
    std::vector<std::string> names(request.nodes().begin(), request.nodes().end());
    if (names.empty())
      for (const auto& [name, node] : nodes_)
        if (node.link) names.push_back(name);
    if (names.empty()) return Status::notFound("the cluster has no connected nodes");
    for (const std::string& name : names) {
      const auto node = nodes_.find(name);
      if (node == nodes_.end()) return Status::notFound("there is no node " + name);
      if (!node->second.link) return Status::invalid("node " + name + " is not connected");
      if (!node->second.info.allows_launch)
        return Status::forbidden("node " + name +
                                 " does not let anybody start jobs: start its agent with --allow-launch");
      if (std::count(names.begin(), names.end(), name) > 1) return Status::invalid("node " + name + " is named twice");
      nodes.push_back(node->second.info);
    }
  }
  LaunchPlan plan;
  plan.request = request;
  const bool elsewhere = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return !onLoopback(n); });
  plan.master_addr = request.master_addr().empty() ? hostOf(nodes.front(), elsewhere) : request.master_addr();
  uint32_t rank = 0;
  for (const NodeDescription& node : nodes) {
    const auto gpus = static_cast<uint32_t>(node.gpus.size());
    const uint32_t here = request.per_node() > 0 ? request.per_node() : std::max(1u, gpus);
    auto& [name, of_node] = plan.nodes.emplace_back(node.node, LaunchPlan::OfNode());
    const bool each_one = gpus > 0 && here <= gpus;  // else the program knows how to share them
    for (uint32_t local = 0; local < here; ++local) {
      LaunchedRank& r = of_node.ranks.emplace_back();
      r.rank = rank++;
      r.local_rank = local;
      r.node = node.node;
      if (!each_one) continue;
      r.gpus = {node.gpus[local].index};
      of_node.visible_gpus += (local > 0 ? "," : "") + std::to_string(node.gpus[local].index);
    }
  }
  return plan;
}

std::shared_ptr<Launch> Master::launch(LaunchPlan plan, Launch::Wake wake) {
  const std::string id = access::randomHex(32);
  std::vector<std::shared_ptr<AgentLink>> links;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, ranks] : plan.nodes)
      if (const auto node = nodes_.find(name); node != nodes_.end() && node->second.link)
        links.push_back(node->second.link);
  }
  auto launch = std::make_shared<Launch>(std::move(plan), std::move(wake));
  launches_.add(id, launch);
  for (const auto& link : links) link->sendLaunch(id);
  return launch;
}

}  // namespace tracesmith::cluster
