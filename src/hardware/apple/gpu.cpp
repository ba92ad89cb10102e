// Apple's GPUs under Asahi Linux: the driver tells what processes do; other sensors are those of the machine.
#include "hardware/apple/gpu.hpp"

namespace tracesmith::hardware {

void describeApple(const std::string& root, const Card&, Gpu& gpu) {
  gpu.name = "Apple GPU";
  if (std::optional<std::string> model = readText(root + "/proc/device-tree/model"))
    gpu.name = "Apple GPU of " + model->substr(0, model->find('\0'));
  if (std::optional<std::string> text = readText(root + "/proc/meminfo"); text && text->starts_with("MemTotal:"))
    gpu.memory_bytes = firstNumber(std::string_view(*text).substr(9)).value_or(0) * 1024;  // shared with the CPUs
}

Sensors appleSensors(const std::string& root, const Card&) {
  Sensors s;
  s.busy_from_engines = true;
  for (const std::string& hwmon : listFolder(root + "/sys/class/hwmon")) {
    const std::string folder = root + "/sys/class/hwmon/" + hwmon;
    if (readText(folder + "/name").value_or("") != "macsmc_hwmon") continue;
    for (int i = 1; i < 32; ++i)
      if (readText(folder + "/temp" + std::to_string(i) + "_label").value_or("").find("GPU") != std::string::npos) {
        s.files.push_back({folder + "/temp" + std::to_string(i) + "_input", Metric::gpu_temperature_celsius, 1e-3});
        return s;
      }
  }
  return s;
}

}  // namespace tracesmith::hardware
