// What devices did last, and shortly before: a view of the store in which the sampler of a node keeps its values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/schedule/device.hpp"

namespace tracesmith::hardware {
class Latest;
}

namespace tracesmith::schedule {

/// All devices together. A sum or mean is over the devices that report the value, and absent if none does.
struct AggregatedMetrics {
  uint64_t device_count = 0;     ///< that are known
  uint64_t reporting_count = 0;  ///< whose telemetry is fresh
  uint64_t stale_count = 0;      ///< whose telemetry is too old: not in the sums
  std::optional<uint64_t> total_memory_bytes, used_memory_bytes, available_memory_bytes;
  std::optional<double> average_utilization_percent, average_temperature_celsius, total_power_watts;
  std::string timestamp;  ///< of the newest report, ISO 8601 in UTC; empty: there is none
};

/// Keeps the telemetry of devices, which it numbers as they come. Thread safe.
///
/// The age of a report counts from when it arrived here, because the clocks of machines differ; its timestamp is kept
/// as it was given. Times called now_ns and seen_ns are CLOCK_MONOTONIC_RAW in ns; 0: now.
class TRACESMITH_API TelemetryCollector {
 public:
  /// With a store of its own, which record() fills, and so many reports of each device to look back on.
  explicit TelemetryCollector(size_t max_history = 100);
  /// Over the store that a sampler fills: devices are the GPUs of its node, by their index.
  explicit TelemetryCollector(const hardware::Latest& latest);
  ~TelemetryCollector();
  TelemetryCollector(const TelemetryCollector&) = delete;
  TelemetryCollector& operator=(const TelemetryCollector&) = delete;

  /// Fails if the report is impossible, or older than the last one of the device.
  Status record(int32_t device, const GPUMetrics& metrics, int64_t seen_ns = 0);
  /// The newest report; values that are older than max_age_s are absent. Absent: there is none.
  std::optional<GPUMetrics> latest(int32_t device, double max_age_s = 0, int64_t now_ns = 0) const;
  /// What was recorded, oldest first.
  std::vector<GPUMetrics> history(int32_t device) const;
  void forget(int32_t device);
  /// Over these devices. max_age_s 0: of any age.
  AggregatedMetrics aggregate(const std::vector<int32_t>& devices, double max_age_s = 0, int64_t now_ns = 0) const;

  /// For those who read many devices at once.
  const hardware::Latest& store() const { return *latest_; }

 private:
  std::unique_ptr<hardware::Latest> own_;  // what record() fills; absent: a view
  const hardware::Latest* latest_;
  int64_t unix_minus_raw_;  // as long as this lives, so that timestamps come back as they were given
};

}  // namespace tracesmith::schedule
