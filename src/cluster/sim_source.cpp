#include "cluster/sim_source.hpp"

#include <cmath>

#include "capture/collect/collector.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr double kMemoryBytes = 80e9;

/// Utilisation in waves, power and temperature that follow it.
class SimulatedTelemetry final : public NodeSource {
 public:
  explicit SimulatedTelemetry(int gpus) : gpus_(gpus) {}

  Status describe(Writer& writer, Appender& out, int64_t node) override {
    NodeRow row;
    row.node = node;
    row.hostname = writer.string(capture::hostName());
    row.os = writer.string("simulated");
    row.gpus = gpus_;
    return out.append(row);
  }

  Status sample(Writer& writer, Appender& out, int64_t node, int64_t raw_ns) override {
    const double t = static_cast<double>(raw_ns) / 1e9;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const double wave = std::sin(t / 3 + gpu);
      const double busy = 85 + 10 * wave;
      auto put = [&](const char* name, const char* unit, double value) {
        MetricRow row;
        row.ts = raw_ns;
        row.node = node;
        row.device = gpu;
        row.name = writer.string(name);
        row.unit = writer.string(unit);
        row.value = real(value);
        return out.append(row);
      };
      TS_TRY(put("gpu_utilization_percent", "%", std::round(busy)));
      TS_TRY(put("gpu_memory_used_bytes", "B", kMemoryBytes * (0.6 + 0.02 * gpu)));
      TS_TRY(put("gpu_memory_total_bytes", "B", kMemoryBytes));
      TS_TRY(put("gpu_power_watts", "W", 120 + 5.5 * busy));
      TS_TRY(put("gpu_temperature_celsius", "°C", 35 + 0.4 * busy));
    }
    return {};
  }

 private:
  int gpus_;
};

}  // namespace

Result<std::unique_ptr<SimulatedNode>> SimulatedNode::start(int gpus, const std::string& node,
                                                            const std::string& ring_folder) {
  std::unique_ptr<SimulatedNode> simulated(new SimulatedNode());
  simulated->gpus_ = gpus;
  sim::LiveConfig config;
  config.job.ranks = config.job.gpus_per_node = gpus;
  config.host = node;
  config.folder = ring_folder;
  Result<std::unique_ptr<sim::LiveJob>> job = sim::LiveJob::create(config);
  if (!job) return job.status();
  simulated->job_ = std::move(*job);
  simulated->thread_ = std::thread([s = simulated.get()] { s->job_->run(s->stop_); });
  return simulated;
}

SimulatedNode::~SimulatedNode() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<DeviceStatus> SimulatedNode::gpus() const {
  std::vector<DeviceStatus> all;
  for (int gpu = 0; gpu < gpus_; ++gpu)
    all.push_back({static_cast<uint32_t>(gpu), "Simulated H100", static_cast<uint64_t>(kMemoryBytes)});
  return all;
}

std::unique_ptr<NodeSource> SimulatedNode::source() const { return std::make_unique<SimulatedTelemetry>(gpus_); }

}  // namespace tracesmith::cluster
