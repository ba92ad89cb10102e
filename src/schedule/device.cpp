#include "tracesmith/schedule/device.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tracesmith::schedule {
namespace {

/// The first compute capability of NVIDIA's GPUs that computes in a precision, from the tables of CUDA's programming
/// guide.
struct Precision {
  const char* name;
  int major, minor;
};
constexpr Precision kPrecisions[] = {{"fp64", 1, 3}, {"fp32", 1, 0}, {"tf32", 8, 0}, {"fp16", 5, 3},
                                     {"bf16", 8, 0}, {"fp8", 8, 9},  {"int8", 6, 1}, {"fp4", 10, 0}};

constexpr double kAbsoluteZeroCelsius = -273.15;

/// "9.0"; false if it is not of this form.
bool parseCapability(const std::string& text, int& major, int& minor) {
  const char* end = text.data() + text.size();
  const auto [point, wrong] = std::from_chars(text.data(), end, major);
  if (wrong != std::errc() || point == end || *point != '.') return false;
  const auto [rest, bad] = std::from_chars(point + 1, end, minor);
  return bad == std::errc() && rest == end;
}

Status impossible(const GPUMetrics& m, const std::string& what) {
  return Status::invalid("metrics of '" + m.device_id + "': " + what);
}

}  // namespace

const std::vector<std::string>& precisions() {
  static const auto* names = [] {
    auto* list = new std::vector<std::string>;
    for (const Precision& p : kPrecisions) list->emplace_back(p.name);
    return list;
  }();
  return *names;
}

std::optional<bool> supports(const GPUDevice& device, const std::string& precision) {
  if (device.matrix_tflops.contains(precision)) return true;
  if (std::find(device.precisions.begin(), device.precisions.end(), precision) != device.precisions.end()) return true;
  int major = 0, minor = 0;
  if (!parseCapability(device.compute_capability, major, minor)) return std::nullopt;
  for (const Precision& p : kPrecisions)
    if (p.name == precision) return std::pair(major, minor) >= std::pair(p.major, p.minor);
  return std::nullopt;
}

Status check(const GPUMetrics& m) {
  if (!std::isfinite(m.timestamp) || m.timestamp < 0 || m.timestamp > 4e9)
    return impossible(m, "timestamp must be Unix time in seconds");
  if (m.memory_total_bytes && *m.memory_total_bytes == 0)
    return impossible(m, "memory_total_bytes must be more than 0; leave it out if it is not known");
  if (m.memory_used_bytes && m.memory_total_bytes && *m.memory_used_bytes > *m.memory_total_bytes)
    return impossible(m, "memory_used_bytes is more than memory_total_bytes");
  // Written so that NaN fails too.
  if (const auto u = m.compute_utilization_percent; u && !(*u >= 0 && *u <= 100))
    return impossible(m, "compute_utilization_percent must be between 0 and 100");
  if (const auto t = m.temperature_celsius; t && !(*t >= kAbsoluteZeroCelsius && *t < 1e4))
    return impossible(m, "temperature_celsius is not possible");
  if (const auto p = m.power_watts; p && !(*p >= 0 && *p < 1e6)) return impossible(m, "power_watts is not possible");
  if (const auto c = m.clock_rate_mhz; c && !(*c >= 0 && *c < 1e6))
    return impossible(m, "clock_rate_mhz is not possible");
  return {};
}

}  // namespace tracesmith::schedule
