// The master's nodes: who registered, who is connected, who is healthy.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "access/names.hpp"
#include "base/file.hpp"
#include "cluster/master/master.hpp"
#include "model/travel_lines.hpp"
#include "process/act.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

uint64_t residentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Status Master::saveNode(const NodeRegistration& info) const {
  std::lock_guard lock(files_mutex_);
  const std::string folder = options_.data_dir + "/nodes/" + info.node;
  TS_TRY(makePrivateFolder(folder));
  Result<OutputFile> out = OutputFile::create(folder + "/node");
  if (!out) return out.status();
  TS_TRY(out->write(model::toLines(info)));
  return out->commitDurably();
}

void Master::loadNodes() {
  for (const std::string& name : store_->nodes()) {
    std::ifstream in(options_.data_dir + "/nodes/" + name + "/node");
    if (!in) continue;  // it was removed; what it sent is still there
    Node& node = nodes_[name];
    node.info.node = name;
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    model::fromLines(text, node.info);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {  // names that older versions gave them
      if (line.starts_with("agent ")) node.info.agent_id = line.substr(6);
      if (line.starts_with("boot ")) node.info.boot_id = line.substr(5);
    }
  }
}

bool Master::healthy(const Node& node) const {
  return node.known && Clock::now() - node.heard <= std::chrono::milliseconds(options_.timeout_ms);
}

/// Its agent was heard so short a time ago that it must still run.
bool Master::lately(const Node& node) const {
  return node.known && Clock::now() - node.heard <= 2 * std::chrono::milliseconds(options_.heartbeat_ms);
}

Status Master::registerNode(const NodeRegistration& info) {
  TS_TRY(access::checkName("node", info.node));
  for (const std::string* text :
       {&info.hostname, &info.agent_id, &info.boot_id, &info.machine_id, &info.version, &info.address})
    if (text->size() > 256 || text->find('\n') != std::string::npos)
      return Status::invalid("invalid description of a node");
  if (info.gpus.size() > 1024) return Status::invalid("a node has at most 1024 GPUs");
  watch_->describe(info);
  {
    std::lock_guard lock(mutex_);
    Node& node = nodes_[info.node];
    const bool there = node.link != nullptr && lately(node);
    if (!node.info.agent_id.empty() && node.info.agent_id != info.agent_id && (node.link || lately(node)))
      return Status::invalid("node " + info.node + " is already connected: give this agent another --node-id");
    // One machine is not booted twice at a time: the other one has a copy of this agent's data folder.
    if (there && node.info.agent_id == info.agent_id &&
        (node.info.boot_id != info.boot_id || node.info.machine_id != info.machine_id))
      return Status::invalid("node " + info.node + " is already connected from " + node.info.hostname +
                             ", with a copy of this agent's data folder: give this agent its own --data-dir and "
                             "another --node-id");
    node.info = info;
    node.known = true;
    node.heard = Clock::now();
  }
  // A session that records takes in nodes that come later. A full disk keeps nobody out: it is written later.
  for (const SessionRecord& s : sessions_.all())
    if (s.end_ns == 0 && std::find(s.nodes.begin(), s.nodes.end(), info.node) == s.nodes.end())
      (void)sessions_.change(s.id, [&](SessionRecord& r) { r.nodes.push_back(info.node); });
  if (!saveNode(info)) {
    std::lock_guard lock(mutex_);
    unwritten_.insert(info.node);
  }
  return {};
}

Status Master::removeNode(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(name);
  if (it == nodes_.end()) return Status::notFound("there is no node " + name);
  if (it->second.link) return Status::invalid("node " + name + " is connected: stop its agent first");
  // Its data stays: sessions need it.
  const std::string file = options_.data_dir + "/nodes/" + name + "/node";
  std::error_code error;
  fs::remove(file, error);
  if (error) return Status::io("cannot remove " + file + ": " + error.message());
  nodes_.erase(it);
  watch_->forget(name);
  return {};
}

void Master::heartbeat(const NodeStatus& status) {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(status.node);
  if (it == nodes_.end()) return;
  it->second.last = status;
  it->second.heard = Clock::now();
}

Status Master::link(const std::string& name, std::shared_ptr<AgentLink> link) {
  {
    std::lock_guard lock(mutex_);
    auto it = nodes_.find(name);
    if (it == nodes_.end() || !it->second.known) return Status::notFound("node " + name + " has not registered");
    it->second.link.swap(link);
    it->second.heard = Clock::now();
  }
  if (link) link->end();  // whoever holds it would wait for acknowledgements for ever
  return {};
}

void Master::unlink(const std::string& name, const AgentLink* link) {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(name);
  if (it != nodes_.end() && it->second.link.get() == link) it->second.link.reset();
}

void Master::sendPlan(const std::string& name, const PlanOrder& order) {
  std::shared_ptr<AgentLink> link;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = nodes_.find(name); it != nodes_.end()) link = it->second.link;
  }
  if (link) link->sendPlan(order);
}

bool Master::connected(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto it = nodes_.find(name);
  return it != nodes_.end() && it->second.link != nullptr;
}

void Master::agentRemoved(const std::string& name, const SpoolMark& mark) {
  std::string epoch;
  uint32_t number;
  if (!parseSegmentFile(segmentFile(mark.epoch, mark.segment), epoch, number)) return;
  if (const std::optional<NodeLoss> loss = store_->agentRemoved(name, mark))
    std::fprintf(stderr, "tracesmith: %s\n", text(name, *loss).c_str());
}

Result<ClusterProcesses> Master::processes(const ProcessQuery& query, int wait_ms) {
  Questions::Asked asked;
  {
    std::lock_guard lock(mutex_);
    for (const std::string& name : query.nodes)
      if (!nodes_.contains(name)) return Status::notFound("there is no node " + name);
    for (const auto& [name, node] : nodes_)
      if (query.nodes.empty() || std::find(query.nodes.begin(), query.nodes.end(), name) != query.nodes.end())
        asked.emplace_back(name, node.link);
  }
  if (asked.empty()) return Status::notFound("the cluster has no nodes");
  const auto longer = std::chrono::milliseconds(static_cast<int64_t>(process::secondsOf(query) * 1000));
  return questions_.ask(query, asked, std::chrono::milliseconds(wait_ms) + longer);
}

ClusterStatus Master::status() {
  ClusterStatus status;
  status.now_ns = referenceNow();
  status.version = TRACESMITH_VERSION;
  status.memory_bytes = residentBytes();
  const auto now = Clock::now();
  {
    std::lock_guard lock(mutex_);
    for (const std::string* problem : {&problem_, &sync_problem_, &write_problem_})
      if (status.problem.empty()) status.problem = *problem;
    for (const auto& [name, node] : nodes_) {
      NodeStatus n = node.last;
      static_cast<NodeDescription&>(n) = node.info;
      n.connected = node.link != nullptr;
      n.healthy = healthy(node);
      n.silent_s.reset();
      n.price_per_hour.reset();
      if (node.known) n.silent_s = std::chrono::duration<double>(now - node.heard).count();
      status.nodes.push_back(std::move(n));
    }
    if (exports_) status.exports = exports_->status();
    if (clickhouse_)
      for (model::ExportStatus& shard : clickhouse_->status()) status.exports.push_back(std::move(shard));
  }
  declared_.addTo(status);
  for (NodeStatus& n : status.nodes) {
    n.stored_bytes = store_->bytes(n.node);
    n.stored_events = store_->events(n.node);
    status.stored_bytes += n.stored_bytes;
  }
  status.sessions = sessions();
  return status;
}

}  // namespace tracesmith::cluster
