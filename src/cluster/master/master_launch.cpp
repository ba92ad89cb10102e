// Which rank of a launched job runs on which node and GPU.
#include <algorithm>
#include <map>

#include "access/names.hpp"
#include "base/count.hpp"
#include "cluster/master/master.hpp"
#include "schedule/node.hpp"
#include "schedule/placement.hpp"

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

/// Gives the ranks of a plan other GPUs of the plan: those that exchange most are near each other.
Status placeRanks(const std::vector<NodeStatus>& nodes, LaunchPlan& plan) {
  const pb::LaunchRequest& r = plan.request;
  schedule::PlacementRequest request;
  request.tensor = std::max(1u, r.tensor());
  request.data = std::max(1u, r.data());
  request.pipeline = std::max(1u, r.pipeline());
  const uint64_t ranks = uint64_t{request.tensor} * request.data * request.pipeline;
  if (ranks != plan.worldSize())
    return Status::invalid("the groups are for " + counted(ranks, "rank") + ", and the nodes run " +
                           std::to_string(plan.worldSize()));
  schedule::PlacementDevices devices;
  std::map<std::string, std::pair<std::string, uint32_t>> places;  // node and GPU, by device
  for (const auto& [name, of_node] : plan.nodes) {
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&, n = name](const auto& s) { return s.node == n; });
    if (node == nodes.end()) return Status::notFound("there is no node " + name);
    NodeStatus used = *node;
    used.gpus.clear();
    for (const LaunchedRank& rank : of_node.ranks) {
      if (rank.gpus.empty()) return Status::invalid("node " + name + " has no GPU for each of its ranks to place them");
      const uint32_t gpu = rank.gpus.front();
      for (const DeviceStatus& d : node->gpus)
        if (d.index == gpu) used.gpus.push_back(d);
      places[schedule::deviceId(name, gpu)] = {name, gpu};
    }
    devices.addNode(used);
  }
  const Result<schedule::Placement> placement = schedule::place(devices, request);
  if (!placement) return placement.status();
  plan.nodes.clear();
  for (const schedule::Placed& placed : placement->ranks) {  // the node of rank 0 comes first
    const auto& [name, gpu] = places[placed.device_id];
    auto node =
        std::find_if(plan.nodes.begin(), plan.nodes.end(), [&, n = name](const auto& p) { return p.first == n; });
    if (node == plan.nodes.end()) node = plan.nodes.insert(plan.nodes.end(), {name, {}});
    LaunchPlan::OfNode& of_node = node->second;
    of_node.visible_gpus += (of_node.ranks.empty() ? "" : ",") + std::to_string(gpu);
    LaunchedRank& rank = of_node.ranks.emplace_back();
    rank.rank = placed.rank;
    rank.local_rank = static_cast<uint32_t>(of_node.ranks.size() - 1);
    rank.node = name;
    rank.gpus = {gpu};
  }
  return {};
}

}  // namespace

Result<LaunchPlan> Master::planLaunch(const pb::LaunchRequest& request) {
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
  if (request.tensor() + uint64_t{request.data()} + request.pipeline() > 0) TS_TRY(placeRanks(status().nodes, plan));
  const bool elsewhere = std::any_of(nodes.begin(), nodes.end(), [](const auto& n) { return !onLoopback(n); });
  const auto first =
      std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.node == plan.nodes.front().first; });
  plan.master_addr = request.master_addr().empty() ? hostOf(*first, elsewhere) : request.master_addr();
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
