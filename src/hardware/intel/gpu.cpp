// Intel's GPUs by the drivers i915 and xe.
#include "hardware/intel/gpu.hpp"

namespace tracesmith::hardware {

void describeIntel(const std::string&, const Card& card, Gpu& gpu) {
  gpu.name = std::string("Intel GPU ") + readText(card.device + "/device").value_or("");
  if (card.pci == "0000:00:02.0") gpu.name += " (integrated)";
  const bool xe = card.driver == "xe";
  gpu.clock_mhz =
      readNumber(xe ? card.device + "/tile0/gt0/freq0/max_freq" : card.folder + "/gt_max_freq_mhz").value_or(kUnknown);
  for (const char* file : {"/power1_max", "/power1_crit", "/power1_rated_max", "/power2_max"})
    if (std::optional<int64_t> uw = readNumber(card.hwmon + file); uw && gpu.power_limit_watts == kUnknown)
      gpu.power_limit_watts = *uw / 1'000'000;
  // The endpoint of a discrete card may claim generation 1 with one lane: the bridge above it knows better.
  if (gpu.pcie_generation == 1 && gpu.pcie_lanes == 1) gpu.pcie_generation = gpu.pcie_lanes = kUnknown;
  if (gpu.pcie_generation_now == 1 && gpu.pcie_lanes_now == 1) gpu.pcie_generation_now = gpu.pcie_lanes_now = kUnknown;
}

Sensors intelSensors(const std::string&, const Card& card) {
  const bool xe = card.driver == "xe";
  Sensors s;
  s.files.push_back(
      {xe ? card.device + "/tile0/gt0/freq0/cur_freq" : card.folder + "/gt_cur_freq_mhz", Metric::gpu_sm_clock_mhz});
  s.busy_from_engines = true;
  if (card.hwmon.empty()) return s;
  s.files.push_back({card.hwmon + (xe ? "/temp2_input" : "/temp1_input"), Metric::gpu_temperature_celsius, 1e-3});
  s.energy_uj = card.hwmon + (xe && readNumber(card.hwmon + "/energy2_input") ? "/energy2_input" : "/energy1_input");
  return s;
}

}  // namespace tracesmith::hardware
