#include "cluster/master/launches.hpp"

#include "cluster/wire/convert.hpp"

namespace tracesmith::cluster {

using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kComeWithin = std::chrono::seconds(15);
constexpr size_t kMostWaiting = 4u << 20, kFewWaiting = 1u << 20;  // bytes for a client that is behind

void callAll(const std::vector<Launch::Wake>& wakes) {
  for (const Launch::Wake& wake : wakes)
    if (wake) wake();
}

}  // namespace

uint32_t LaunchPlan::worldSize() const {
  size_t n = 0;
  for (const auto& [name, node] : nodes) n += node.ranks.size();
  return static_cast<uint32_t>(n);
}

Launch::Launch(LaunchPlan plan, Wake client) : plan_(std::move(plan)), client_(std::move(client)) {
  pb::LaunchEvent& first = events_.emplace_back();
  uint32_t number = 0;
  for (const auto& [name, of_node] : plan_.nodes) {
    Node& node = nodes_[name];
    node.number = number++;
    for (const LaunchedRank& rank : of_node.ranks) {
      node.running.insert(rank.rank);
      toMessage(rank, *first.mutable_started()->add_ranks());
    }
  }
}

Status Launch::attach(const std::string& name, Wake wake, Wake resume) {
  std::lock_guard lock(mutex_);
  const auto node = nodes_.find(name);
  if (node == nodes_.end() || node->second.attached || node->second.running.empty() || stopping_)
    return Status::notFound("there is nothing to start here");
  node->second.attached = true;
  node->second.wake = std::move(wake);
  node->second.resume = std::move(resume);
  return {};
}

bool Launch::nextOrder(const std::string& name, pb::RankOrder& order) {
  std::lock_guard lock(mutex_);
  Node& node = nodes_[name];
  if (!node.started) {
    node.started = true;
    pb::RankStart& start = *order.mutable_start();
    *start.mutable_request() = plan_.request;
    start.mutable_request()->clear_nodes();
    start.set_world_size(plan_.worldSize());
    start.set_master_addr(plan_.master_addr);
    start.set_node_rank(node.number);
    const LaunchPlan::OfNode& of_node = plan_.nodes[node.number].second;
    start.set_visible_gpus(of_node.visible_gpus);
    for (const LaunchedRank& rank : of_node.ranks) toMessage(rank, *start.add_ranks());
    return true;
  }
  if (!stopping_ || node.stop_sent) return false;
  node.stop_sent = true;
  order.set_stop(true);
  return true;
}

std::vector<Launch::Wake> Launch::stopLocked() {
  std::vector<Wake> wakes;
  if (stopping_) return wakes;
  stopping_ = true;
  for (auto& [name, node] : nodes_) {
    if (node.attached) {
      wakes.push_back(node.wake);
      continue;
    }
    // Nothing runs there, and nothing will.
    const std::set<uint32_t> never = node.running;
    for (const uint32_t rank : never) {
      RankEnd end;
      end.rank = rank;
      end.node = name;
      end.terminated = true;
      end.problem = "it was no longer started";
      for (Wake& wake : endLocked(end)) wakes.push_back(std::move(wake));
    }
  }
  return wakes;
}

std::vector<Launch::Wake> Launch::endLocked(const RankEnd& end) {
  std::vector<Wake> wakes;
  Node& node = nodes_[end.node];
  if (node.running.erase(end.rank) == 0) return wakes;
  toMessage(end, *events_.emplace_back().mutable_ended());
  wakes.push_back(client_);
  // A rank that waits for one that has failed would wait for ever.
  if (!end.code || *end.code != 0)
    for (Wake& wake : stopLocked()) wakes.push_back(std::move(wake));
  return wakes;
}

bool Launch::take(const std::string& name, pb::RankEvent event) {
  std::vector<Wake> wakes;
  bool more = true;
  {
    std::lock_guard lock(mutex_);
    Node& node = nodes_[name];
    if (event.has_ended()) {
      RankEnd end = fromMessage(event.ended());
      end.node = name;
      wakes = endLocked(end);
    } else if (event.has_output() && node.running.contains(event.output().rank()) && client_) {
      waiting_bytes_ += event.output().data().size();
      *events_.emplace_back().mutable_output() = std::move(*event.mutable_output());
      wakes.push_back(client_);
      more = waiting_bytes_ < kMostWaiting;
      node.paused = !more;
    }
  }
  callAll(wakes);
  return more;
}

void Launch::left(const std::string& name) {
  std::vector<Wake> wakes;
  {
    std::lock_guard lock(mutex_);
    Node& node = nodes_[name];
    node.wake = node.resume = nullptr;
    const std::set<uint32_t> lost = node.running;
    for (const uint32_t rank : lost) {
      RankEnd end;
      end.rank = rank;
      end.node = name;
      end.terminated = stopping_;
      end.problem = "the connection to its agent broke";
      for (Wake& wake : endLocked(end)) wakes.push_back(std::move(wake));
    }
  }
  callAll(wakes);
}

bool Launch::nextEvent(pb::LaunchEvent& event) {
  std::vector<Wake> wakes;
  {
    std::lock_guard lock(mutex_);
    if (events_.empty()) return false;
    event = std::move(events_.front());
    events_.pop_front();
    waiting_bytes_ -= event.output().data().size();
    if (waiting_bytes_ < kFewWaiting)
      for (auto& [name, node] : nodes_)
        if (std::exchange(node.paused, false)) wakes.push_back(node.resume);
  }
  callAll(wakes);
  return true;
}

bool Launch::overLocked() const {
  for (const auto& [name, node] : nodes_)
    if (!node.running.empty()) return false;
  return true;
}

bool Launch::over() const {
  std::lock_guard lock(mutex_);
  return overLocked();
}

bool Launch::told() const {
  std::lock_guard lock(mutex_);
  return overLocked() && events_.empty();
}

void Launch::stop() {
  std::vector<Wake> wakes;
  {
    std::lock_guard lock(mutex_);
    wakes = stopLocked();
  }
  callAll(wakes);
}

void Launch::abandon() {
  std::vector<Wake> wakes;
  {
    std::lock_guard lock(mutex_);
    client_ = nullptr;
    events_.clear();
    waiting_bytes_ = 0;
    wakes = stopLocked();
    for (auto& [name, node] : nodes_)
      if (std::exchange(node.paused, false)) wakes.push_back(node.resume);
  }
  callAll(wakes);
}

void Launch::look(Clock::time_point now) {
  if (now - began_ < kComeWithin) return;
  std::vector<Wake> wakes;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, node] : nodes_) {
      if (node.attached) continue;
      const std::set<uint32_t> never = node.running;
      for (const uint32_t rank : never) {
        RankEnd end;
        end.rank = rank;
        end.node = name;
        end.problem = "its agent did not start it in time";
        for (Wake& wake : endLocked(end)) wakes.push_back(std::move(wake));
      }
    }
  }
  callAll(wakes);
}

void Launches::add(const std::string& id, std::shared_ptr<Launch> launch) {
  std::lock_guard lock(mutex_);
  launches_[id] = std::move(launch);
}

std::shared_ptr<Launch> Launches::find(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto found = launches_.find(id);
  return found == launches_.end() ? nullptr : found->second;
}

void Launches::look() {
  std::vector<std::shared_ptr<Launch>> all;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(launches_, [](const auto& entry) { return entry.second->over(); });
    for (const auto& [id, launch] : launches_) all.push_back(launch);
  }
  const auto now = Clock::now();
  for (const auto& launch : all) launch->look(now);
}

size_t Launches::running() const {
  std::lock_guard lock(mutex_);
  return launches_.size();
}

}  // namespace tracesmith::cluster
