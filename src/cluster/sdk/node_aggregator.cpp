#include "tracesmith/cluster/node_aggregator.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>

#include "access/names.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "cluster/agent/agent.hpp"
#include "cluster/sdk/node_info.hpp"
#include "cluster/sdk/trace_contents.hpp"
#include "hardware/topology/links.hpp"
#include "sync/exchange.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

constexpr uint64_t kBytesPer5Events = 16;  // in the spool, compressed

NodeInfo infoOf(const NodeStatus& status) {
  NodeInfo info;
  info.node_id = status.node;
  info.hostname = status.hostname;
  info.gpu_count = static_cast<uint32_t>(status.gpus.size());
  for (const DeviceStatus& gpu : status.gpus) {
    DeviceInfo& device = info.gpus.emplace_back();
    device.device_id = gpu.index;
    device.name = gpu.name;
    device.vendor = gpu.vendor;
    device.pci_bus_id = gpu.pci;
    device.total_memory = gpu.memory_bytes;
    if (gpu.cc_major) device.compute_major = static_cast<int>(*gpu.cc_major);
    if (gpu.cc_minor) device.compute_minor = static_cast<int>(*gpu.cc_minor);
    device.simulated = gpu.simulated;
  }
  info.topology = topologyOf(status.gpus.size(), status.links);
  return info;
}

NodeAggregator::Statistics statisticsOf(const NodeStatus& status, NodeAggregator::Statistics s) {
  s.total_events = status.records;
  s.lost_events = status.losses;
  s.processes = status.processes;
  s.spooled_bytes = status.spool_bytes;
  if (status.clock) s.clock_error_bound_ns = status.clock->bound_ns;
  return s;
}

/// What the last capture recorded, read when somebody asks for it.
struct Captured {
  std::string path;      // of the trace; empty: not exported yet
  bool handed = false;   // the file is the caller's
  bool counted = false;  // `totals` is filled
  NodeAggregator::Statistics totals;
};

struct NodeAggregator::Impl {
  NodeAggregatorConfig config;
  std::unique_ptr<Server> server;
  mutable std::mutex mutex;  // guards what follows
  mutable Status last;
  mutable Captured captured;
  Timestamp start_time = 0, end_time = 0;  // of the last capture; end 0: it goes on

  bool act(const std::function<Status(Server&)>& what) const {
    const Status status = server ? what(*server) : Status::invalid("the node is not initialized");
    last = status;
    return status.ok();
  }
  Timestamp now() const {
    const std::optional<ClockStatus> clock = server->status().clock;
    return static_cast<Timestamp>(clock ? rawClock() + clock->offset_ns : unixClock());
  }
  /// The trace of the capture, exported once.
  Result<std::unique_ptr<trace::Reader>> open() const {
    if (!server) return Status::invalid("the node is not initialized");
    if (captured.path.empty()) {
      const std::string path = config.data_dir + "/node-" + access::randomHex(8) + ".sbt";
      TS_TRY(server->exportTrace(path));
      captured.path = path;
    }
    return trace::Reader::open(captured.path);
  }
  void forget() {
    if (!captured.path.empty() && !captured.handed) std::remove(captured.path.c_str());
    captured = {};
  }
};

NodeAggregator::NodeAggregator(const NodeAggregatorConfig& config) : impl_(std::make_unique<Impl>()) {
  impl_->config = config;
}
NodeAggregator::~NodeAggregator() { finalize(); }

bool NodeAggregator::initialize() {
  std::lock_guard lock(impl_->mutex);
  if (impl_->server) return true;
  const NodeAggregatorConfig& c = impl_->config;
  AgentOptions options;
  options.node_id = c.node_id;
  options.master = c.master;
  options.listen = c.listen;
  options.port = c.port;
  options.data_dir = c.data_dir;
  options.security = {c.token_file, "", c.tls_cert, c.tls_key, c.tls_ca};
  options.freq_ms = c.sample_interval_ms;
  options.tick_ms = static_cast<int>(std::clamp<uint32_t>(c.flush_interval_ms, 1, 60'000));
  options.segment_bytes = std::max<uint64_t>(64 << 10, c.aggregation_buffer_size * kBytesPer5Events / 5);
  options.sim_gpus = c.simulated_gpus;
  if (options.sim_gpus == 0 && c.multi_gpu_config.platform == PlatformType::Sim) {
    options.sim_gpus = static_cast<int>(c.multi_gpu_config.profiler.sim.gpus);
    options.sim_faults = c.multi_gpu_config.profiler.sim.faults;
  }
  if (c.time_sync_config.method == TimeSyncMethod::NTP)
    options.clock = {sync::Source::Kind::ntp, c.time_sync_config.ntp_server};
  if (c.time_sync_config.method == TimeSyncMethod::PTP)
    options.clock = {sync::Source::Kind::ptp, c.time_sync_config.ptp_interface};
  Result<std::unique_ptr<Server>> server = startAgentServer(options);
  impl_->last = server.status();
  if (server) impl_->server = std::move(*server);
  return server.ok();
}

void NodeAggregator::finalize() {
  std::lock_guard lock(impl_->mutex);
  impl_->forget();
  impl_->server.reset();
}

Status NodeAggregator::lastStatus() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last;
}

std::string NodeAggregator::lastError() const {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->last) return impl_->last.message();
  return impl_->server ? impl_->server->status().problem : std::string();
}

NodeInfo NodeAggregator::getNodeInfo() const {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return {};
  NodeInfo info = infoOf(impl_->server->status());
  info.ip_address = impl_->config.listen;
  return info;
}

bool NodeAggregator::isConnected() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->server && impl_->server->status().connected;
}
bool NodeAggregator::isCapturing() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->server && impl_->server->status().captures > 0;
}

bool NodeAggregator::startCapture() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->act([](Server& s) { return s.startCapture(); })) return false;
  impl_->forget();
  impl_->start_time = impl_->now();
  impl_->end_time = 0;
  return true;
}

bool NodeAggregator::stopCapture() {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->act([](Server& s) { return s.stopCapture(); })) return false;
  impl_->end_time = impl_->now();
  return true;
}

TraceRecord NodeAggregator::exportTrace() {
  std::lock_guard lock(impl_->mutex);
  TraceRecord record;
  Result<std::unique_ptr<trace::Reader>> reader = impl_->open();
  impl_->last = reader.status();
  if (!reader) return record;
  impl_->captured.handed = true;
  record.path = impl_->captured.path;
  record.nodes = {impl_->server->name()};
  record.event_count = (*reader)->rows(trace::tableOf<trace::EventRow>());
  record.complete = true;
  return record;
}

std::vector<uint8_t> NodeAggregator::serializeEvents(bool) {
  std::lock_guard lock(impl_->mutex);
  std::vector<uint8_t> bytes;
  impl_->last = [&]() -> Status {
    Result<std::unique_ptr<trace::Reader>> reader = impl_->open();
    if (!reader) return reader.status();
    Result<File> file = File::openRead(impl_->captured.path);
    if (!file) return file.status();
    bytes.resize((*reader)->fileSize());
    size_t got = 0;
    TS_TRY(file->readAt(0, bytes.data(), bytes.size(), got));
    bytes.resize(got);
    return {};
  }();
  return bytes;
}

std::vector<NCCLOperation> NodeAggregator::getNCCLOperations() const {
  std::lock_guard lock(impl_->mutex);
  const NCCLTrackerConfig& c = impl_->config.nccl_config;
  Result<std::unique_ptr<trace::Reader>> reader = impl_->open();
  impl_->last = reader.status();
  if (!reader) return {};
  Result<std::vector<NCCLOperation>> all = ncclOperations(**reader, nullptr, [&](uint64_t comm) {
    return c.comm_filter.empty() || std::ranges::count(c.comm_filter, comm) > 0;
  });
  impl_->last = all.status();
  if (!all) return {};
  if (all->size() > c.max_operations)  // the last ones, as of a tracker
    all->erase(all->begin(), all->end() - static_cast<std::ptrdiff_t>(c.max_operations));
  return std::move(*all);
}

size_t NodeAggregator::getEventCount() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->server ? impl_->server->status().records : 0;
}

void NodeAggregator::synchronizeTime() {
  std::lock_guard lock(impl_->mutex);
  (void)impl_->act([](Server& s) { return s.synchronizeTime(); });
}

int64_t NodeAggregator::getTimeOffset() const {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return 0;
  const std::optional<ClockStatus> clock = impl_->server->status().clock;
  return clock ? clock->offset_ns : 0;
}

NodeAggregator::Statistics NodeAggregator::getStatistics() const {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->server) return {};
  if (impl_->end_time != 0 && !impl_->captured.counted) {
    Result<std::unique_ptr<trace::Reader>> reader = impl_->open();
    Result<std::map<std::string, Statistics>> counts = reader ? countCapture(**reader) : reader.status();
    Captured& c = impl_->captured;
    impl_->last = counts.status();
    c.counted = counts.ok();
    if (counts && !counts->empty()) c.totals = counts->begin()->second;  // there is one node
    c.totals.start_time = impl_->start_time;
    c.totals.end_time = impl_->end_time;
    c.totals.capture_duration_sec = static_cast<double>(impl_->end_time - impl_->start_time) / 1e9;
  }
  return statisticsOf(impl_->server->status(), impl_->captured.totals);
}

}  // namespace tracesmith::cluster
