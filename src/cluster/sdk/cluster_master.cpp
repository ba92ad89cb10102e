#include "tracesmith/cluster/cluster_master.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

#include "access/names.hpp"
#include "base/file.hpp"
#include "base/progress.hpp"
#include "cluster/master/service.hpp"
#include "cluster/rpc/client.hpp"
#include "cluster/sdk/node_info.hpp"
#include "sync/clock_table.hpp"
#include "trace/export/export.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

struct ClusterMaster::Impl {
  ClusterMasterConfig config;
  std::unique_ptr<Server> server;
  mutable std::mutex mutex;  // guards what follows: a client is for one thread at a time
  std::unique_ptr<Client> client;
  std::string session;  // of the last capture
  mutable std::string error;
  ClientOptions own;                 // to this master
  std::unique_ptr<Client> follower;  // of the subscription
  std::thread following;
  std::atomic<uint64_t> lost{0};

  bool note(const Status& status) const {
    if (!status) error = status.message();
    return status.ok();
  }
  ClusterStatus status() const {
    if (!client) return {};
    Result<ClusterStatus> s = client->status();
    if (!s) (void)note(s.status());
    return s ? *s : ClusterStatus{};
  }
  bool exportTo(const std::string& filename);
  bool exportAs(Status (*format)(trace::Export&), const std::string& filename);
};

ClusterMaster::ClusterMaster(const ClusterMasterConfig& config) : impl_(std::make_unique<Impl>()) {
  impl_->config = config;
}
ClusterMaster::~ClusterMaster() { stop(); }

bool ClusterMaster::start() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->server) return true;
  const ClusterMasterConfig& c = impl_->config;
  MasterOptions options;
  options.listen = c.listen;
  options.port = c.listen_port;
  options.heartbeat_ms = c.heartbeat_interval_ms;
  options.timeout_ms = c.node_timeout_ms;
  options.data_dir = c.data_dir;
  options.security = {c.token_file, c.tls_cert, c.tls_key, c.tls_ca};
  Result<std::unique_ptr<Server>> server = startMasterServer(options);
  if (!server) return impl_->note(server.status());
  impl_->server = std::move(*server);
  ClientOptions& own = impl_->own;
  const bool any = c.listen == "0.0.0.0" || c.listen == "::";
  own.master = (any ? "127.0.0.1" : c.listen) + ":" + std::to_string(impl_->server->port());
  own.security = options.security;
  Result<std::unique_ptr<Client>> client = connectClient(own);
  if (!client) return impl_->note(client.status());
  impl_->client = std::move(*client);
  return true;
}

void ClusterMaster::stop() {
  unsubscribeFromEvents();
  std::lock_guard lock(impl_->mutex);
  impl_->client.reset();
  impl_->server.reset();
}

bool ClusterMaster::isRunning() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->server != nullptr;
}

uint16_t ClusterMaster::port() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->server ? impl_->server->port() : 0;
}

std::string ClusterMaster::lastError() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->error;
}

bool ClusterMaster::registerNode(const std::string& address, uint16_t port) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->client) return false;
  Result<std::string> node = impl_->client->addNode(address + ":" + std::to_string(port));
  return impl_->note(node.status());
}

bool ClusterMaster::unregisterNode(const std::string& node_id) {
  std::lock_guard lock(impl_->mutex);
  return impl_->client && impl_->note(impl_->client->removeNode(node_id));
}

std::vector<NodeConnection> ClusterMaster::getConnectedNodes() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<NodeConnection> all;
  for (const NodeStatus& n : impl_->status().nodes) {
    if (!n.connected) continue;
    NodeConnection c;
    c.node_id = n.node;
    c.address = n.address;
    c.connected = n.connected;
    c.healthy = n.healthy;
    c.silent_seconds = n.silent_s.value_or(0);  // a node that is connected was heard
    if (n.clock) {
      c.time_offset = n.clock->offset_ns;
      c.time_error_bound = n.clock->bound_ns;
    }
    c.info = infoOf(n);
    c.info.ip_address = n.address.substr(0, n.address.rfind(':'));
    all.push_back(std::move(c));
  }
  return all;
}

bool ClusterMaster::isNodeConnected(const std::string& node_id) const {
  for (const NodeConnection& c : getConnectedNodes())
    if (c.node_id == node_id) return true;
  return false;
}

bool ClusterMaster::startClusterCapture() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->client) return false;
  Result<SessionInfo> session = impl_->client->start({});
  if (session) impl_->session = session->id;
  return impl_->note(session.status());
}

bool ClusterMaster::stopClusterCapture(double wait_seconds) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->client || impl_->session.empty()) return impl_->note(Status::invalid("nothing is being captured"));
  if (Result<std::vector<SessionInfo>> stopped = impl_->client->stop(impl_->session); !stopped)
    return impl_->note(stopped.status());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_seconds);
  for (;;) {
    Result<std::vector<SessionInfo>> all = impl_->client->sessions();
    if (!all) return impl_->note(all.status());
    for (const SessionInfo& s : *all)
      if (s.id == impl_->session && s.state == "complete") return true;
    if (std::chrono::steady_clock::now() > deadline)
      return impl_->note(Status::io("not every node has delivered its data"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::map<std::string, int64_t> ClusterMaster::getNodeTimeOffsets() const {
  std::map<std::string, int64_t> offsets;
  for (const NodeConnection& c : getConnectedNodes())
    if (c.time_error_bound >= 0) offsets[c.node_id] = c.time_offset;
  return offsets;
}

ClusterMaster::ClusterStatistics ClusterMaster::getClusterStatistics() const {
  std::lock_guard lock(impl_->mutex);
  ClusterStatistics s;
  for (const NodeStatus& n : impl_->status().nodes) {
    ++s.total_nodes;
    s.total_gpus += static_cast<uint32_t>(n.gpus.size());
    s.total_events += n.stored_events;
    s.total_bytes += n.stored_bytes;
    s.per_node_stats[n.node] = statisticsOf(n);
  }
  return s;
}

bool ClusterMaster::subscribeToEvents(EventCallback callback) {
  unsubscribeFromEvents();
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return impl_->note(Status::invalid("the master does not run"));
  Result<std::unique_ptr<Client>> client = connectClient(impl_->own);
  if (!client) return impl_->note(client.status());
  impl_->follower = std::move(*client);
  impl_->lost = 0;
  auto begun = std::make_shared<std::promise<void>>();  // shared with the thread, which may leave it last
  std::future<void> begins = begun->get_future();
  impl_->following = std::thread([impl = impl_.get(), callback = std::move(callback), begun] {
    (void)impl->follower->follow(
        {}, [&] { begun->set_value(); },
        [&](const LiveEvent& e) {
          impl->lost += e.lost;
          if (e.event.type != EventType::Unknown) callback(e.node, e.event);
          return true;
        });
  });
  begins.wait();
  return true;
}

void ClusterMaster::unsubscribeFromEvents() {
  std::unique_lock lock(impl_->mutex);
  if (!impl_->follower) return;
  impl_->follower->cancel();
  std::thread following = std::move(impl_->following);
  lock.unlock();
  following.join();  // not under the lock: the callback may ask this master something
  lock.lock();
  impl_->follower.reset();
}

uint64_t ClusterMaster::eventsLost() const { return impl_->lost; }

TraceRecord ClusterMaster::collectAllTraces() {
  TraceRecord record;
  const std::string path = impl_->config.data_dir + "/collected-" + access::randomHex(8) + ".sbt";
  if (!exportToSBT(path)) return record;
  std::lock_guard lock(impl_->mutex);
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!impl_->note(reader.status())) return record;
  record.path = path;
  record.event_count = (*reader)->rows(trace::tableOf<trace::EventRow>());
  for (const SessionInfo& s : impl_->status().sessions) {
    if (s.id != impl_->session) continue;
    record.complete = s.state == "complete";
    for (const SessionNode& node : s.nodes) record.nodes.push_back(node.node);
  }
  return record;
}

ClusterTimeline ClusterMaster::buildClusterTimeline() {
  ClusterTimeline timeline;
  const TraceRecord record = collectAllTraces();
  if (record.path.empty()) return timeline;
  const bool opened = timeline.open(record.path);
  std::remove(record.path.c_str());
  std::lock_guard lock(impl_->mutex);
  if (!opened) impl_->error = timeline.lastError();
  return timeline;
}

CommAnalysis::CommMatrix ClusterMaster::getClusterCommMatrix() {
  CommAnalysis::CommMatrix cells;
  const TraceRecord record = collectAllTraces();
  if (record.path.empty()) return cells;
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(record.path);
  Result<analysis::Analysis> result = reader ? analysis::analyze(**reader, {}) : reader.status();
  std::remove(record.path.c_str());
  std::lock_guard lock(impl_->mutex);
  if (!impl_->note(result.status())) return cells;
  for (const analysis::MatrixCell& c : result->matrix)
    cells.world_size = std::max({cells.world_size, static_cast<uint32_t>(c.from) + 1, static_cast<uint32_t>(c.to) + 1});
  const size_t n = cells.world_size;
  cells.bytes.assign(n, std::vector<uint64_t>(n));
  cells.count = cells.bytes;
  cells.avg_latency.assign(n, std::vector<double>(n));
  for (const analysis::MatrixCell& c : result->matrix) {
    const auto from = static_cast<size_t>(c.from), to = static_cast<size_t>(c.to);
    cells.bytes[from][to] = c.bytes;
    cells.count[from][to] = c.count;
    cells.avg_latency[from][to] = c.latency_us;
  }
  return cells;
}

namespace {

Status convert(const std::string& sbt, const std::string& filename, Status (*format)(trace::Export&)) {
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(sbt);
  if (!reader) return reader.status();
  Result<std::unique_ptr<sync::TraceClock>> clock = sync::TraceClock::load(**reader);
  if (!clock) return clock.status();
  trace::Selection all;
  all.clock = clock->get();
  Result<OutputFile> out = OutputFile::create(filename);
  if (!out) return out.status();
  BufferedWriter writer(out->file());
  Progress progress("exporting");
  trace::Export e{**reader, all, writer, progress};
  TS_TRY(format(e));
  TS_TRY(writer.flush());
  return out->commit();
}

}  // namespace

bool ClusterMaster::Impl::exportTo(const std::string& filename) {
  std::lock_guard lock(mutex);
  if (!client || session.empty()) return note(Status::invalid("nothing was captured"));
  return note(client->fetch(session, filename, {}));
}

bool ClusterMaster::Impl::exportAs(Status (*format)(trace::Export&), const std::string& filename) {
  const std::string sbt = filename + ".sbt.part";
  if (!exportTo(sbt)) return false;
  const Status status = convert(sbt, filename, format);
  std::remove(sbt.c_str());
  std::lock_guard lock(mutex);
  return note(status);
}

bool ClusterMaster::exportToSBT(const std::string& filename) { return impl_->exportTo(filename); }
bool ClusterMaster::exportToPerfetto(const std::string& filename) {
  return impl_->exportAs(trace::exportPerfetto, filename);
}
bool ClusterMaster::exportToJSON(const std::string& filename) { return impl_->exportAs(trace::exportChrome, filename); }

}  // namespace tracesmith::cluster
