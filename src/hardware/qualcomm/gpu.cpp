// Qualcomm's Adreno by the driver msm; vendor kernels have kgsl instead of devfreq.
#include "hardware/qualcomm/gpu.hpp"

namespace tracesmith::hardware {
namespace {

/// Folder of the GPU's frequency governor: "…/devfreq/3d00000.gpu".
std::string devfreq(const std::string& root) {
  const std::string all = root + "/sys/class/devfreq/";
  for (const std::string& name : listFolder(all))
    if (name.ends_with(".gpu")) return all + name;
  return "";
}

}  // namespace

void describeQualcomm(const std::string& root, const Card& card, Gpu& gpu) {
  gpu.name = "Qualcomm Adreno";
  if (std::optional<std::string> model = readText(root + "/sys/class/kgsl/kgsl-3d0/gpu_model")) gpu.name = *model;
  (void)card;
  if (std::optional<int64_t> hz = readNumber(devfreq(root) + "/max_freq")) gpu.clock_mhz = *hz / 1'000'000;
  // The GPU has no memory of its own.
  if (std::optional<std::string> text = readText(root + "/proc/meminfo"); text && text->starts_with("MemTotal:"))
    gpu.memory_bytes = firstNumber(std::string_view(*text).substr(9)).value_or(0) * 1024;
}

Sensors qualcommSensors(const std::string& root, const Card&) {
  Sensors s;
  const std::string kgsl = root + "/sys/class/kgsl/kgsl-3d0", governor = devfreq(root);
  if (!governor.empty()) s.files.push_back({governor + "/cur_freq", Metric::gpu_sm_clock_mhz, 1e-6});
  if (readNumber(kgsl + "/gpu_busy_percentage")) {
    s.files.push_back({kgsl + "/gpu_busy_percentage", Metric::gpu_utilization_percent});
    s.files.push_back({kgsl + "/temp", Metric::gpu_temperature_celsius, 1e-3});
    return s;
  }
  s.busy_from_engines = true;
  for (const std::string& zone : listFolder(root + "/sys/class/thermal"))
    if (readText(root + "/sys/class/thermal/" + zone + "/type").value_or("").starts_with("gpu")) {
      s.files.push_back({root + "/sys/class/thermal/" + zone + "/temp", Metric::gpu_temperature_celsius, 1e-3});
      break;
    }
  return s;
}

}  // namespace tracesmith::hardware
