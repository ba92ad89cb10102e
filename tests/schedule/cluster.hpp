// Devices and reports for the tests of this folder.
#pragma once

#include <string>

#include "tracesmith/schedule/device.hpp"

namespace tracesmith::schedule::test {

constexpr int64_t kSecond = 1'000'000'000;

inline GPUDevice device(const std::string& id) {
  GPUDevice d;
  d.device_id = id;
  d.name = "GPU";
  d.vendor = "nvidia";
  d.memory_bytes = 24'000'000'000;
  return d;
}

/// Of a device with 24 GB.
inline GPUMetrics metrics(const std::string& id, double used_bytes, double utilization, double celsius) {
  GPUMetrics m;
  m.device_id = id;
  m.timestamp = 1707043200;
  m.memory_used_bytes = static_cast<uint64_t>(used_bytes);
  m.memory_total_bytes = 24'000'000'000;
  m.compute_utilization_percent = utilization;
  m.temperature_celsius = celsius;
  return m;
}

}  // namespace tracesmith::schedule::test
