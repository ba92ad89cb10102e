#include "tracesmith/cluster/cluster_master.hpp"

#include <chrono>
#include <cmath>
#include <future>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "cluster/master/service.hpp"
#include "cluster/rpc/client.hpp"
#include "cluster/sdk/cluster_master_impl.hpp"
#include "cluster/sdk/node_info.hpp"
#include "sync/exchange.hpp"

namespace tracesmith::cluster {

namespace {

/// The master's Unix clock is everybody's reference: where the user names a source, the two must agree.
Status checkReference(const TimeSyncConfig& config) {
  if (config.method != TimeSyncMethod::NTP && config.method != TimeSyncMethod::PTP) return {};
  TimeSync source(config);
  const SyncResult told = source.synchronize();
  if (!told.success) return source.lastStatus();
  const int64_t raw = rawClock();
  const int64_t off = unixClock() - raw - told.offset_ns;
  if (std::abs(off) <= config.max_acceptable_offset_ns) return {};
  return Status::invalid("this machine's clock is off by " + humanNs(static_cast<double>(off)) +
                         " from the source that it should follow: set it, for example with chrony");
}

}  // namespace

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
  options.security = {c.token_file, "", c.tls_cert, c.tls_key, c.tls_ca};
  if (Status right = checkReference(c.time_sync_config); !right) return impl_->note(right);
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

Status ClusterMaster::lastStatus() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last;
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
  const ClusterStatus status = impl_->status();
  for (const NodeStatus& n : status.nodes) {
    if (!n.connected) continue;
    NodeConnection c;
    c.node_id = n.node;
    const size_t colon = n.address.rfind(':');
    c.address = n.address.substr(0, colon);
    int64_t port = 0;
    if (colon != std::string::npos && parseInt(n.address.substr(colon + 1), port)) c.port = static_cast<uint16_t>(port);
    c.connected = n.connected;
    c.healthy = n.healthy;
    c.silent_seconds = n.silent_s.value_or(0);  // a node that is connected was heard
    if (n.silent_s) c.last_heartbeat = static_cast<Timestamp>(status.now_ns - std::llround(*n.silent_s * 1e9));
    if (n.clock) {
      c.time_offset = n.clock->offset_ns;
      c.time_error_bound = n.clock->bound_ns;
    }
    c.info = infoOf(n);
    c.info.ip_address = c.address;
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
      if (s.id == impl_->session && s.state == model::SessionState::complete) return true;
    if (std::chrono::steady_clock::now() > deadline)
      return impl_->note(Status::io("not every node has delivered its data"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void ClusterMaster::synchronizeClusterTime() {
  std::lock_guard lock(impl_->mutex);
  const auto began = std::chrono::steady_clock::now();
  const auto patience = std::chrono::milliseconds(2 * impl_->config.heartbeat_interval_ms) + std::chrono::seconds(5);
  for (;;) {
    const auto waited = std::chrono::steady_clock::now() - began;
    std::string waiting;
    for (const NodeStatus& n : impl_->status().nodes)
      if (n.connected && (!n.clock || n.silent_s.value_or(1e9) > std::chrono::duration<double>(waited).count()))
        waiting += (waiting.empty() ? "" : ", ") + n.node;
    if (waiting.empty()) {
      impl_->last = {};
      return;
    }
    if (waited > patience) {
      (void)impl_->note(Status::io("the clocks of these nodes are not known: " + waiting));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::map<std::string, int64_t> ClusterMaster::getNodeTimeOffsets() const {
  std::map<std::string, int64_t> offsets;
  for (const NodeConnection& c : getConnectedNodes())
    if (c.time_error_bound) offsets[c.node_id] = c.time_offset;
  return offsets;
}

ClusterMaster::ClusterStatistics ClusterMaster::getClusterStatistics() const {
  std::lock_guard lock(impl_->mutex);
  ClusterStatistics s;
  const ClusterStatus status = impl_->status();
  impl_->count(status.sessions);
  for (const auto& [node, c] : impl_->counts) {
    s.total_nccl_ops += c.nccl_operations;
    s.total_nccl_bytes += c.nccl_bytes;
  }
  for (const NodeStatus& n : status.nodes) {
    ++s.total_nodes;
    s.total_gpus += static_cast<uint32_t>(n.gpus.size());
    s.total_events += n.stored_events;
    s.total_bytes += n.stored_bytes;
    const auto counts = impl_->counts.find(n.node);
    s.per_node_stats[n.node] =
        statisticsOf(n, counts == impl_->counts.end() ? NodeAggregator::Statistics{} : counts->second);
  }
  return s;
}

bool ClusterMaster::subscribeToEvents(EventCallback callback) {
  unsubscribeFromEvents();
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return impl_->note(Status::invalid("the master is not running"));
  if (!impl_->config.enable_streaming) return impl_->note(Status::invalid("the configuration turns streaming off"));
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

}  // namespace tracesmith::cluster
