#include "cluster/wire/live_convert.hpp"

namespace tracesmith::cluster {

const std::vector<std::string>& liveMetricNames() {
  static const std::vector<std::string> kNames = {"gpu_utilization_percent",
                                                  "gpu_memory_utilization_percent",
                                                  "gpu_memory_used_bytes",
                                                  "gpu_memory_total_bytes",
                                                  "gpu_memory_used_percent",
                                                  "gpu_power_watts",
                                                  "gpu_power_limit_watts",
                                                  "gpu_temperature_celsius",
                                                  "gpu_memory_temperature_celsius",
                                                  "gpu_sm_clock_mhz",
                                                  "gpu_memory_clock_mhz",
                                                  "gpu_throttle_reasons",
                                                  "gpu_sm_activity_percent",
                                                  "gpu_tensor_activity_percent",
                                                  "gpu_dram_activity_percent",
                                                  "gpu_pcie_tx_bytes_per_second",
                                                  "gpu_pcie_rx_bytes_per_second",
                                                  "gpu_nvlink_tx_bytes_per_second",
                                                  "gpu_nvlink_rx_bytes_per_second",
                                                  "gpu_ecc_corrected",
                                                  "gpu_ecc_uncorrected"};
  return kNames;
}

model::NodeReport takeReport(const LiveReport& message) {
  model::NodeReport report = fromMessage(message);
  for (model::GpuState& gpu : report.gpus) {
    std::vector<model::Metric> known;
    for (const std::string& name : liveMetricNames()) {
      model::Metric& metric = known.emplace_back(model::Metric{name, {}});
      for (const model::Metric& m : gpu.metrics)
        if (m.name == name) metric.value = m.value;
    }
    gpu.metrics = std::move(known);
  }
  return report;
}

}  // namespace tracesmith::cluster
