// AMD's GPUs by the driver amdgpu: everything is in sysfs.
#include "hardware/amd/gpu.hpp"

namespace tracesmith::hardware {

void describeAmd(const std::string&, const Card& card, Gpu& gpu) {
  gpu.name = readText(card.device + "/product_name").value_or("");
  if (gpu.name.empty()) gpu.name = "AMD GPU " + readText(card.device + "/device").value_or("");
  if (std::optional<std::string> id = readText(card.device + "/unique_id")) gpu.uuid = "AMD-" + *id;
  gpu.memory_bytes = readNumber(card.device + "/mem_info_vram_total").value_or(kUnknown);
  if (std::optional<int64_t> cap = readNumber(card.hwmon + "/power1_cap")) gpu.power_limit_watts = *cap / 1'000'000;
}

Sensors amdSensors(const std::string&, const Card& card) {
  const std::string &d = card.device, &h = card.hwmon;
  Sensors s;
  s.files = {{d + "/gpu_busy_percent", Metric::gpu_utilization_percent},
             {d + "/mem_busy_percent", Metric::gpu_memory_utilization_percent},
             {d + "/mem_info_vram_used", Metric::gpu_memory_used_bytes},
             {d + "/mem_info_vram_total", Metric::gpu_memory_total_bytes},
             {d + "/current_link_width", Metric::gpu_pcie_lanes},
             {d + "/pcie_replay_count", Metric::gpu_pcie_replays}};
  if (h.empty()) return s;
  // Older chips give an average, newer ones what is drawn now.
  const bool average = readNumber(h + "/power1_average").has_value();
  s.files.push_back({h + (average ? "/power1_average" : "/power1_input"), Metric::gpu_power_watts, 1e-6});
  s.files.push_back({h + "/power1_cap", Metric::gpu_power_limit_watts, 1e-6});
  s.files.push_back({h + "/temp1_input", Metric::gpu_temperature_celsius, 1e-3});
  s.files.push_back({h + "/temp2_input", Metric::gpu_temperature_celsius, 1e-3, "junction"});
  s.files.push_back({h + "/temp3_input", Metric::gpu_memory_temperature_celsius, 1e-3});
  s.files.push_back({h + "/freq1_input", Metric::gpu_sm_clock_mhz, 1e-6});
  s.files.push_back({h + "/freq2_input", Metric::gpu_memory_clock_mhz, 1e-6});
  if (std::optional<int64_t> most = readNumber(h + "/pwm1_max"); most && *most > 0)
    s.files.push_back({h + "/pwm1", Metric::gpu_fan_percent, 100.0 / static_cast<double>(*most)});
  return s;
}

}  // namespace tracesmith::hardware
