#include "cluster/master/declared_nodes.hpp"

#include <algorithm>

#include "access/names.hpp"
#include "base/parallel.hpp"

namespace tracesmith::cluster {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kLeastPause = 500ms, kMostPause = 30000ms;
constexpr size_t kAtATime = 8;  // a machine that does not answer takes seconds

}  // namespace

Status DeclaredNodes::open(const std::string& path) {
  if (path.empty()) return {};
  Result<std::vector<hardware::DeclaredNode>> nodes = hardware::loadNodesYaml(path);
  if (!nodes) return nodes.status();
  for (const hardware::DeclaredNode& node : *nodes) {
    if (node.name == "*") continue;
    if (Status s = access::checkName("node", node.name); !s) return Status::invalid(path + ": " + s.message());
    if (node.address.empty()) continue;
    const Result<access::Address> address = access::parseAddress(node.address, kAgentPort);
    if (!address)
      return Status::invalid(path + ": the address of node " + node.name + ": " + address.status().message());
    waiting_[node.name].address = address->text();
  }
  nodes_ = std::move(*nodes);
  return {};
}

void DeclaredNodes::start(Invite invite, Connected connected) {
  if (waiting_.empty()) return;
  thread_ =
      std::thread([this, invite = std::move(invite), connected = std::move(connected)] { loop(invite, connected); });
}

void DeclaredNodes::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeclaredNodes::loop(const Invite& invite, const Connected& connected) {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::vector<std::string> due;
    for (auto& [name, node] : waiting_) {
      if (connected(name)) {
        node.problem.clear();
        node.pause = {};
        node.next = Clock::now() + kLeastPause;  // an agent whose connection broke comes back by itself first
      } else if (Clock::now() >= node.next) {
        due.push_back(name);
      }
    }
    if (!due.empty()) {
      lock.unlock();
      parallelFor(due.size(), kAtATime, [&](size_t i, size_t) { tryOne(due[i], invite); });
      lock.lock();
    }
    changed_.wait_for(lock, kLeastPause, [&] { return stop_; });
  }
}

void DeclaredNodes::tryOne(const std::string& name, const Invite& invite) {
  std::string address;
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    address = waiting_[name].address;
  }
  const Result<std::string> node = invite(address);
  std::string problem;
  if (!node)
    problem = node.status().message();
  else if (*node != name)
    problem = "the agent at " + address + " is node " + *node +
              ": change the name in nodes.yaml, or give the agent --node-id " + name;
  std::lock_guard lock(mutex_);
  Waiting& w = waiting_[name];
  if (!problem.empty() && problem != w.problem)
    std::fprintf(stderr, "tracesmith: node %s: %s\n", name.c_str(), problem.c_str());
  w.problem = problem;
  w.pause = std::clamp<std::chrono::milliseconds>(2 * w.pause, kLeastPause, kMostPause);
  w.next = Clock::now() + w.pause;
}

void DeclaredNodes::addTo(ClusterStatus& status) const {
  if (nodes_.empty()) return;
  for (const hardware::DeclaredNode& declared : nodes_) {
    const bool there = std::any_of(status.nodes.begin(), status.nodes.end(),
                                   [&](const NodeStatus& n) { return n.node == declared.name; });
    if (there || declared.name == "*") continue;
    NodeStatus& missing = status.nodes.emplace_back();
    missing.node = declared.name;
    missing.address = declared.address;
  }
  for (NodeStatus& node : status.nodes) {
    hardware::Capability capability;
    capability.node = node.node;
    for (const NodeFigure& f : node.figures) capability.set({f.name, f.unit, f.part, f.median, f.low, f.high, 0, ""});
    applyDeclared(nodes_, capability);
    node.figures.clear();
    for (const hardware::Figure& f : capability.figures)
      node.figures.push_back({f.median, f.low, f.high, f.unit, f.part, f.name});
    const auto gbps = capability.links();
    for (LinkStatus& link : node.links) {
      const auto there = gbps.find({link.gpu_a, link.gpu_b}), back = gbps.find({link.gpu_b, link.gpu_a});
      if (there != gbps.end()) link.measured_gbps = there->second;
      if (back != gbps.end() && (there == gbps.end() || back->second < there->second))
        link.measured_gbps = back->second;
    }
    for (const hardware::DeclaredNode& declared : nodes_)
      if (declared.price_per_hour && (declared.name == node.node || declared.name == "*"))
        node.price_per_hour = declared.price_per_hour;
    std::lock_guard lock(mutex_);
    const auto waiting = waiting_.find(node.node);
    if (waiting != waiting_.end() && !node.connected && node.problem.empty()) node.problem = waiting->second.problem;
  }
  std::sort(status.nodes.begin(), status.nodes.end(),
            [](const NodeStatus& a, const NodeStatus& b) { return a.node < b.node; });
}

}  // namespace tracesmith::cluster
