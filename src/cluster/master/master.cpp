#include "cluster/master/master.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "access/names.hpp"
#include "base/clock.hpp"
#include "cluster/master/retention.hpp"
#include "model/travel_lines.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kSyncPeriod = std::chrono::milliseconds(20);  // pieces that come within it are made durable together
constexpr auto kHousePeriod = std::chrono::milliseconds(500);

uint64_t residentBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<std::unique_ptr<Master>> Master::open(const MasterOptions& options) {
  std::unique_ptr<Master> master(new Master());
  master->options_ = options;
  std::error_code error;
  fs::create_directories(options.data_dir, error);
  if (error) return Status::io("cannot create " + options.data_dir + ": " + error.message());
  const std::string lock = options.data_dir + "/master.lock";
  master->lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (master->lock_ < 0) return errnoStatus("create", lock);
  if (::flock(master->lock_, LOCK_EX | LOCK_NB) != 0)
    return Status::invalid("another master is using " + options.data_dir + ": give this one its own --data-dir");
  TS_TRY(master->openReference());
  Result<std::unique_ptr<Store>> store = Store::open(options.data_dir);
  if (!store) return store.status();
  master->store_ = std::move(*store);
  TS_TRY(master->sessions_.open(options.data_dir));
  master->loadNodes();
  master->watch_ = std::make_unique<LiveWatch>([m = master.get()] { return m->referenceNow(); },
                                               int64_t{options.timeout_ms} * 1'000'000);
  master->dirty_ = true;  // what an earlier run wrote may not be safe yet
  master->syncer_ = std::thread([m = master.get()] { m->syncLoop(); });
  return master;
}

Master::~Master() {
  watch_.reset();
  if (syncer_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    syncer_.join();
  }
  if (lock_ >= 0) ::close(lock_);
}

/// A master that is restarted goes on with the same clock; after a boot there is a new one.
Status Master::openReference() {
  const std::string path = options_.data_dir + "/reference", boot = access::kernelBootId();
  std::ifstream in(path);
  std::string was;
  if (in >> was >> anchor_ns_ && was == boot) return {};
  anchor_ns_ = unixClock() - rawClock();
  Result<OutputFile> out = OutputFile::create(path);
  if (!out) return out.status();
  TS_TRY(out->write(boot + " " + std::to_string(anchor_ns_) + "\n"));
  TS_TRY(out->file().sync());
  return out->commit();
}

int64_t Master::referenceNow() const { return rawClock() + anchor_ns_; }

Status Master::saveNode(const NodeRegistration& info) const {
  const std::string folder = options_.data_dir + "/nodes/" + info.node;
  std::error_code error;
  fs::create_directories(folder, error);
  Result<OutputFile> out = OutputFile::create(folder + "/node");
  if (!out) return out.status();
  TS_TRY(out->write(model::toLines(info)));
  return out->commit();
}

void Master::loadNodes() {
  for (const std::string& name : store_->nodes()) {
    Node& node = nodes_[name];
    node.info.node = name;
    std::ifstream in(options_.data_dir + "/nodes/" + name + "/node");
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

Status Master::registerNode(const NodeRegistration& info) {
  TS_TRY(access::checkName("node", info.node));
  for (const std::string* text : {&info.hostname, &info.agent_id, &info.boot_id, &info.version, &info.address})
    if (text->size() > 256 || text->find('\n') != std::string::npos)
      return Status::invalid("invalid description of a node");
  if (info.gpus.size() > 1024) return Status::invalid("a node has at most 1024 GPUs");
  {
    std::lock_guard lock(mutex_);
    Node& node = nodes_[info.node];
    if (!node.info.agent_id.empty() && node.info.agent_id != info.agent_id && node.link)
      return Status::invalid("node " + info.node + " is already connected: give this agent another --node-id");
    node.info = info;
    node.known = true;
    node.heard = Clock::now();
  }
  // A session that records takes in nodes that come later.
  for (const SessionRecord& s : sessions_.all())
    if (s.end_ns == 0 && std::find(s.nodes.begin(), s.nodes.end(), info.node) == s.nodes.end())
      TS_TRY(sessions_.change(s.id, [&](SessionRecord& r) { r.nodes.push_back(info.node); }));
  return saveNode(info);
}

Status Master::removeNode(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto it = nodes_.find(name);
  if (it == nodes_.end()) return Status::notFound("there is no node " + name);
  if (it->second.link) return Status::invalid("node " + name + " is connected: stop its agent first");
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

Status Master::take(const std::string& node, const std::string& epoch, uint32_t segment, uint64_t offset,
                    std::string_view data) {
  Result<Store::Taken> taken = store_->append(node, epoch, segment, offset, data);
  if (taken && !taken->expected) events_.grown(node, taken->path, offset, taken->size, taken->events);
  std::shared_ptr<AgentLink> link;
  std::lock_guard lock(mutex_);
  if (auto it = nodes_.find(node); it != nodes_.end()) {
    it->second.heard = Clock::now();
    link = it->second.link;
  }
  if (!taken) {
    if (taken.status().code() == Code::kInvalid) return taken.status();
    problem_ = taken.status().message();  // a full disk: agents keep what they have
    if (link) link->sendAck(epoch, segment, offset, true, problem_);
    return {};
  }
  problem_.clear();
  if (taken->expected) {
    if (link) {
      link->sendAck(epoch, segment, taken->size, true, {});
      if (taken->durable > 0) link->sendAck(epoch, segment, taken->durable, false, {});
    }
    return {};
  }
  dirty_ = true;
  changed_.notify_all();
  return {};
}

/// Makes pieces durable, many at once, and only then acknowledges them.
void Master::syncLoop() {
  auto house = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kHousePeriod, [&] { return dirty_ || stop_; });
    if (dirty_) {
      dirty_ = false;
      lock.unlock();
      Result<std::vector<Store::Durable>> durable = store_->sync();
      lock.lock();
      if (!durable) {
        problem_ = durable.status().message();
        dirty_ = true;
      } else {
        for (const Store::Durable& d : *durable)
          if (auto it = nodes_.find(d.node); it != nodes_.end() && it->second.link)
            it->second.link->sendAck(d.epoch, d.number, d.size, false, {});
      }
      if (!stop_) changed_.wait_for(lock, kSyncPeriod, [&] { return stop_; });
    }
    if (Clock::now() - house >= kHousePeriod) {
      house = Clock::now();
      lock.unlock();
      keepHouse();
      lock.lock();
    }
  }
}

std::vector<CaptureSpan> Master::captures() {
  std::vector<CaptureSpan> spans;
  for (const SessionRecord& s : sessions_.all()) {
    if (s.complete) continue;
    const int64_t start = s.pauses.empty() ? s.start_ns : s.pauses.back().to_ns;
    spans.push_back({s.id, start, s.end_ns, s.freq_ms});
  }
  return spans;
}

void Master::sendCaptures() {
  const std::vector<CaptureSpan> spans = captures();
  std::lock_guard lock(mutex_);
  for (auto& [name, node] : nodes_)
    if (node.link) node.link->sendCaptures(spans);
}

/// Ends sessions whose time has come, notes which are complete, removes what retention lets go.
void Master::keepHouse() {
  const int64_t now = referenceNow();
  bool changed = false;
  for (const SessionRecord& s : sessions_.all()) {
    if (!s.complete && s.end_ns != 0 && s.end_ns < now) {
      const bool complete = std::all_of(s.nodes.begin(), s.nodes.end(), [&](const std::string& node) {
        return store_->coveredUntil(node) >= s.end_ns;
      });
      if (complete) {
        (void)sessions_.change(s.id, [](SessionRecord& r) { r.complete = true; });
        changed = true;
      }
    }
  }
  const std::vector<SessionRecord> sessions = sessions_.all();
  for (const std::string& node : store_->nodes()) {
    const std::vector<SegmentInfo> segments = store_->segments(node);
    for (size_t i : removable(segments, sessions, now)) {
      if (!store_->remove(segments[i])) continue;
      for (const SessionRecord& s : sessions)
        if (touches(s, segments[i]))
          (void)sessions_.change(s.id, [&](SessionRecord& r) { r.removed_rows += segments[i].rows; });
    }
  }
  if (changed) sendCaptures();
}

Result<SessionInfo> Master::start(const StartOptions& options) {
  const int64_t now = referenceNow();
  if (options.last_s < 0 || options.duration_s < 0 || options.last_s > 1e6 || options.duration_s > 1e8)
    return Status::invalid("a session cannot be that long");
  StartOptions wanted = options;
  if (wanted.freq_ms == 0) wanted.freq_ms = options_.freq_ms;
  const int64_t start_ns = now - static_cast<int64_t>(options.last_s * 1e9);
  int64_t end_ns = 0;
  if (options.duration_s > 0) end_ns = now + static_cast<int64_t>(options.duration_s * 1e9);
  if (options.last_s > 0 && options.duration_s == 0) end_ns = now;
  std::vector<std::string> nodes;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, node] : nodes_)
      if (healthy(node)) nodes.push_back(name);
  }
  Result<SessionRecord> session = sessions_.start(wanted, start_ns, end_ns, nodes);
  if (!session) return session.status();
  sendCaptures();
  return describe(*session);
}

Result<std::vector<SessionInfo>> Master::stop(const std::string& name) {
  Result<std::vector<SessionRecord>> stopped = sessions_.stop(name, referenceNow());
  if (!stopped) return stopped.status();
  sendCaptures();
  std::vector<SessionInfo> list;
  for (const SessionRecord& s : *stopped) list.push_back(describe(s));
  return list;
}

Result<SessionInfo> Master::resume(const std::string& name_or_id) {
  Result<SessionRecord> session = sessions_.resume(name_or_id, referenceNow());
  if (!session) return session.status();
  sendCaptures();
  return describe(*session);
}

SessionInfo Master::describe(const SessionRecord& s) {
  SessionInfo info;
  static_cast<SessionCore&>(info) = s;
  const bool ended = s.end_ns != 0 && s.end_ns < referenceNow();
  bool complete = true, unhealthy = false;
  for (const std::string& name : s.nodes) {
    SessionNode node;
    node.node = name;
    node.covered_ns = store_->coveredUntil(name);
    node.complete = ended && (s.complete || node.covered_ns >= s.end_ns);
    {
      std::lock_guard lock(mutex_);
      auto it = nodes_.find(name);
      node.healthy = it != nodes_.end() && healthy(it->second);
    }
    complete &= node.complete;
    unhealthy |= !node.complete && !node.healthy;
    for (const SegmentInfo& segment : store_->segments(name))
      if (touches(s, segment)) info.bytes += segment.size;
    info.nodes.push_back(std::move(node));
  }
  info.state = !ended ? "recording" : complete ? "complete" : unhealthy ? "incomplete" : "collecting";
  return info;
}

std::vector<SessionInfo> Master::sessions() {
  std::vector<SessionInfo> list;
  for (const SessionRecord& s : sessions_.all()) list.push_back(describe(s));
  return list;
}

/// All that is stored, as a session.
SessionRecord Master::everything() const {
  SessionRecord all;
  all.id = all.name = "everything";
  all.start_ns = 1;
  all.end_ns = referenceNow();
  all.nodes = store_->nodes();
  return all;
}

Status Master::fetch(const std::string& name_or_id, const TraceSink& sink, const std::vector<std::string>& nodes) {
  Result<SessionRecord> session = name_or_id.empty() ? everything() : sessions_.find(name_or_id);
  if (!session) return session.status();
  std::vector<SegmentInfo> segments;
  std::vector<std::string> missing;
  std::vector<SessionNode> taking_part = describe(*session).nodes;
  for (const std::string& wanted : nodes)
    if (std::ranges::none_of(taking_part, [&](const SessionNode& n) { return n.node == wanted; }))
      return Status::notFound("node " + wanted + " has no part in it");
  if (!nodes.empty())
    std::erase_if(taking_part, [&](const SessionNode& n) { return std::ranges::count(nodes, n.node) == 0; });
  for (const SessionNode& node : taking_part) {
    std::vector<SegmentInfo> more = store_->segments(node.node);
    segments.insert(segments.end(), more.begin(), more.end());
    // Of a session that records nothing is missing yet.
    if (!node.complete && session->end_ns != 0 && !name_or_id.empty()) missing.push_back(node.node);
  }
  return mergeSession(*session, segments, missing, sink);
}

Status Master::fetchMore(const std::string& id, GrowingSession& growing, const TraceSink& sink) {
  Result<SessionRecord> session = sessions_.find(id);
  if (!session) return session.status();
  std::vector<SegmentInfo> segments;
  for (const SessionNode& node : describe(*session).nodes) {
    std::vector<SegmentInfo> more = store_->segments(node.node);
    segments.insert(segments.end(), more.begin(), more.end());
  }
  return growing.more(*session, segments, sink);
}

ClusterStatus Master::status() {
  ClusterStatus status;
  status.now_ns = referenceNow();
  status.version = TRACESMITH_VERSION;
  status.memory_bytes = residentBytes();
  const auto now = Clock::now();
  {
    std::lock_guard lock(mutex_);
    status.problem = problem_;
    for (const auto& [name, node] : nodes_) {
      NodeStatus n = node.last;
      static_cast<NodeDescription&>(n) = node.info;
      n.connected = node.link != nullptr;
      n.healthy = healthy(node);
      n.silent_s.reset();
      if (node.known) n.silent_s = std::chrono::duration<double>(now - node.heard).count();
      status.nodes.push_back(std::move(n));
    }
  }
  for (NodeStatus& n : status.nodes) {
    n.stored_bytes = store_->bytes(n.node);
    n.stored_events = store_->events(n.node);
    status.stored_bytes += n.stored_bytes;
  }
  status.sessions = sessions();
  return status;
}

}  // namespace tracesmith::cluster
