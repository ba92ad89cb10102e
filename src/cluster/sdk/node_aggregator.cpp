#include "tracesmith/cluster/node_aggregator.hpp"

#include <functional>

#include "access/names.hpp"
#include "cluster/agent/agent.hpp"
#include "cluster/sdk/node_info.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cluster {

NodeInfo infoOf(const NodeStatus& status) {
  NodeInfo info;
  info.node_id = status.node;
  info.hostname = status.hostname;
  info.gpu_count = static_cast<uint32_t>(status.gpus.size());
  for (const DeviceStatus& gpu : status.gpus) {
    DeviceInfo& device = info.gpus.emplace_back();
    device.device_id = gpu.index;
    device.name = gpu.name;
    device.total_memory = gpu.memory_bytes.value_or(0);
  }
  return info;
}

NodeAggregator::Statistics statisticsOf(const NodeStatus& status) {
  NodeAggregator::Statistics s;
  s.total_events = status.records;
  s.lost_events = status.losses;
  s.processes = status.processes;
  s.spooled_bytes = status.spool_bytes;
  if (status.clock) s.clock_error_bound_ns = status.clock->bound_ns;
  return s;
}

struct NodeAggregator::Impl {
  NodeAggregatorConfig config;
  std::unique_ptr<Server> server;
  std::string error;

  bool act(const std::function<Status(Server&)>& what) {
    const Status status = server ? what(*server) : Status::invalid("the node is not initialized");
    error = status.message();
    return status.ok();
  }
};

NodeAggregator::NodeAggregator(const NodeAggregatorConfig& config) : impl_(std::make_unique<Impl>()) {
  impl_->config = config;
}
NodeAggregator::~NodeAggregator() = default;

bool NodeAggregator::initialize() {
  if (impl_->server) return true;
  const NodeAggregatorConfig& c = impl_->config;
  AgentOptions options;
  options.node_id = c.node_id;
  options.master = c.master;
  options.listen = c.listen;
  options.port = c.port;
  options.data_dir = c.data_dir;
  options.security = {c.token_file, c.tls_cert, c.tls_key, c.tls_ca};
  options.freq_ms = c.sample_interval_ms;
  options.sim_gpus = c.simulated_gpus;
  Result<std::unique_ptr<Server>> server = startAgentServer(options);
  if (!server) {
    impl_->error = server.status().message();
    return false;
  }
  impl_->server = std::move(*server);
  return true;
}

void NodeAggregator::finalize() { impl_->server.reset(); }

std::string NodeAggregator::lastError() const {
  if (!impl_->error.empty()) return impl_->error;
  return impl_->server ? impl_->server->status().problem : std::string();
}

NodeInfo NodeAggregator::getNodeInfo() const {
  if (!impl_->server) return {};
  NodeInfo info = infoOf(impl_->server->status());
  info.ip_address = impl_->config.listen;
  for (DeviceInfo& device : info.gpus) device.simulated = impl_->config.simulated_gpus > 0;
  return info;
}

bool NodeAggregator::isConnected() const { return impl_->server && impl_->server->status().connected; }
bool NodeAggregator::isCapturing() const { return impl_->server && impl_->server->status().captures > 0; }

bool NodeAggregator::startCapture() {
  return impl_->act([](Server& s) { return s.startCapture(); });
}
bool NodeAggregator::stopCapture() {
  return impl_->act([](Server& s) { return s.stopCapture(); });
}

TraceRecord NodeAggregator::exportTrace() {
  TraceRecord record;
  const std::string path = impl_->config.data_dir + "/node-" + access::randomHex(8) + ".sbt";
  if (!impl_->act([&](Server& s) { return s.exportTrace(path); })) return record;
  Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
  if (!reader) return record;
  record.path = path;
  record.nodes = {impl_->server->name()};
  record.event_count = (*reader)->rows(trace::tableOf<trace::EventRow>());
  record.complete = true;
  return record;
}

size_t NodeAggregator::getEventCount() const { return impl_->server ? impl_->server->status().records : 0; }
int64_t NodeAggregator::getTimeOffset() const {
  if (!impl_->server) return 0;
  const std::optional<ClockStatus> clock = impl_->server->status().clock;
  return clock ? clock->offset_ns : 0;
}

NodeAggregator::Statistics NodeAggregator::getStatistics() const {
  return impl_->server ? statisticsOf(impl_->server->status()) : Statistics();
}

}  // namespace tracesmith::cluster
