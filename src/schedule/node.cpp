#include "schedule/node.hpp"

#include <cmath>

#include "base/clock.hpp"
#include "hardware/topology/links.hpp"
#include "schedule/readings.hpp"

namespace tracesmith::schedule {
namespace {

using hardware::kUnknown;

template <typename T>
std::optional<T> known(int64_t value) {
  return value == kUnknown ? std::nullopt : std::optional(static_cast<T>(value));
}

hardware::Inventory inventoryOf(const model::NodeStatus& node) {
  hardware::Inventory out;
  out.node = node.node;
  out.nvidia_driver = node.driver;
  for (const model::DeviceStatus& d : node.gpus) {
    hardware::Gpu& g = out.gpus.emplace_back();
    g.index = static_cast<int32_t>(d.index);
    g.vendor = d.vendor;
    g.name = d.name;
    g.simulated = d.simulated;
    if (d.memory_bytes) g.memory_bytes = static_cast<int64_t>(*d.memory_bytes);
    if (d.cc_major && d.cc_minor) g.cc_major = *d.cc_major, g.cc_minor = *d.cc_minor;
  }
  return out;
}

std::optional<double> valueOf(const model::GpuState& gpu, hardware::Metric metric) {
  const std::string& name = hardware::metricInfo(metric).name;
  for (const model::Metric& m : gpu.metrics)
    if (m.name == name) return m.value;
  return std::nullopt;
}

std::optional<uint64_t> bytesOf(const model::GpuState& gpu, hardware::Metric metric) {
  const std::optional<double> value = valueOf(gpu, metric);
  return value && *value >= 0 ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
}

}  // namespace

std::string deviceId(const std::string& node, int64_t index) { return node + ":" + std::to_string(index); }

GPUDevice deviceOf(const hardware::Inventory& inventory, const hardware::Gpu& gpu,
                   const hardware::Capability& capability) {
  GPUDevice d;
  d.device_id = deviceId(inventory.node, gpu.index);
  d.name = gpu.name;
  d.vendor = gpu.vendor;
  d.node = inventory.node;
  d.index = static_cast<uint32_t>(gpu.index);
  d.memory_bytes = gpu.memory_bytes > 0 ? known<uint64_t>(gpu.memory_bytes) : std::nullopt;
  if (gpu.cc_major != kUnknown && gpu.cc_minor != kUnknown)
    d.compute_capability = std::to_string(gpu.cc_major) + "." + std::to_string(gpu.cc_minor);
  d.compute_units = known<uint32_t>(gpu.multiprocessors);
  d.clock_rate_mhz = known<uint32_t>(gpu.clock_mhz);
  d.driver_version = gpu.driver.empty() && gpu.vendor == "nvidia" ? inventory.nvidia_driver : gpu.driver;
  d.problem = gpu.problem;
  d.simulated = gpu.simulated;
  const std::string part = "gpu " + std::to_string(gpu.index);
  if (const hardware::Figure* memory = capability.find("gpu_memory_gbps", part)) d.bandwidth_gbps = memory->median;
  for (const hardware::Figure& f : capability.figures)
    if (f.name == "gpu_matrix_tflops" && f.part.starts_with(part + " "))
      d.matrix_tflops[f.part.substr(part.size() + 1)] = f.median;
  return d;
}

Status registerNode(GPUClusteringManager& manager, const hardware::Inventory& inventory,
                    const hardware::Capability& capability) {
  for (const hardware::Gpu& gpu : inventory.gpus) TS_TRY(manager.registerDevice(deviceOf(inventory, gpu, capability)));
  cluster::GPUTopology topology(inventory);
  topology.setMeasured(capability.links());
  manager.setTopology(inventory.node, std::move(topology));
  return {};
}

Status registerNode(GPUClusteringManager& manager, const model::NodeStatus& node) {
  const hardware::Inventory inventory = inventoryOf(node);
  hardware::Capability capability;
  for (const model::NodeFigure& f : node.figures)
    capability.set({f.name, f.unit, f.part, f.median, f.low, f.high, 0, ""});
  for (const hardware::Gpu& gpu : inventory.gpus) TS_TRY(manager.registerDevice(deviceOf(inventory, gpu, capability)));
  manager.setTopology(node.node, cluster::GPUTopology(cluster::topologyOf(node.gpus.size(), node.links)));
  return {};
}

Status recordNode(GPUClusteringManager& manager, const model::NodeReport& report, double age_s, int64_t now_ns) {
  using hardware::Metric;
  const auto age_ns = static_cast<int64_t>(std::max(0.0, age_s) * 1e9);
  const int64_t seen_ns = orNow(now_ns) - age_ns;
  const double timestamp = static_cast<double>(unixClock() - age_ns) * 1e-9;
  for (const model::GpuState& gpu : report.gpus) {
    GPUMetrics m;
    m.device_id = deviceId(report.node, gpu.index);
    std::optional<GPUDevice> device = manager.getDevice(m.device_id);
    if (!device) continue;
    m.timestamp = timestamp;
    m.memory_used_bytes = bytesOf(gpu, Metric::gpu_memory_used_bytes);
    m.memory_total_bytes = bytesOf(gpu, Metric::gpu_memory_total_bytes);
    m.compute_utilization_percent = valueOf(gpu, Metric::gpu_utilization_percent);
    m.power_watts = valueOf(gpu, Metric::gpu_power_watts);
    m.temperature_celsius = valueOf(gpu, Metric::gpu_temperature_celsius);
    m.clock_rate_mhz = valueOf(gpu, Metric::gpu_sm_clock_mhz);
    if (const Status impossible = check(m); !impossible) {
      device->problem = impossible.message();
      TS_TRY(manager.registerDevice(*device));
      continue;
    }
    TS_TRY(manager.recordMetrics(m, seen_ns));
  }
  return {};
}

}  // namespace tracesmith::schedule
