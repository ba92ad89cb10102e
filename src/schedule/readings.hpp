// The newest values of a device in the store of a sampler: which metrics they are, and how old they may be.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::schedule {

/// Reads values that are not older than max_age_s; 0: of any age.
class Readings {
 public:
  Readings(const hardware::Latest::View& view, double max_age_s, int64_t now_ns)
      : view_(view), now_ns_(now_ns), oldest_ns_(max_age_s > 0 ? now_ns - ns(max_age_s) : INT64_MIN) {}

  std::optional<double> get(hardware::Metric metric, int32_t device) const {
    const hardware::Latest::Cell& cell = view_.get(metric, device);
    return cell.known() && cell.seen_ns >= oldest_ns_ ? std::optional(cell.now.value) : std::nullopt;
  }
  /// When the newest of the values of a report came; 0: there is none.
  int64_t seenNs(int32_t device) const {
    int64_t newest = 0;
    for (hardware::Metric metric : kReport) newest = std::max(newest, view_.get(metric, device).seen_ns);
    return newest;
  }
  bool fresh(int64_t seen_ns) const { return seen_ns >= oldest_ns_; }
  double ageS(int64_t seen_ns) const { return static_cast<double>(std::max<int64_t>(0, now_ns_ - seen_ns)) * 1e-9; }
  const hardware::Latest::View& view() const { return view_; }

  /// What a report has of a device, in the order of GPUMetrics.
  static constexpr hardware::Metric kReport[] = {
      hardware::Metric::gpu_memory_used_bytes,   hardware::Metric::gpu_memory_total_bytes,
      hardware::Metric::gpu_utilization_percent, hardware::Metric::gpu_power_watts,
      hardware::Metric::gpu_temperature_celsius, hardware::Metric::gpu_sm_clock_mhz};

 private:
  static int64_t ns(double seconds) { return static_cast<int64_t>(std::min(seconds, 1e9) * 1e9); }

  const hardware::Latest::View& view_;
  int64_t now_ns_, oldest_ns_;
};

inline int64_t orNow(int64_t ns) { return ns == 0 ? rawClock() : ns; }

}  // namespace tracesmith::schedule
