#include "tracesmith/schedule/telemetry_collector.hpp"

#include <array>
#include <cmath>
#include <ctime>

#include "schedule/readings.hpp"

namespace tracesmith::schedule {
namespace {

using hardware::Latest;
using hardware::Metric;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Seconds as a double to ns and back, without the error of a product of this size.
int64_t toNs(double seconds) {
  const double whole = std::floor(seconds);
  return static_cast<int64_t>(whole) * 1'000'000'000 + std::llround((seconds - whole) * 1e9);
}
double toSeconds(int64_t ns) {
  return static_cast<double>(ns / 1'000'000'000) + static_cast<double>(ns % 1'000'000'000) / 1e9;
}

std::optional<uint64_t> bytes(std::optional<double> value) {
  return value ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
}

/// In the order of Readings::kReport.
using Values = std::array<std::optional<double>, std::size(Readings::kReport)>;

GPUMetrics metricsOf(const Values& v, double timestamp) {
  GPUMetrics m;
  m.timestamp = timestamp;
  m.memory_used_bytes = bytes(v[0]);
  m.memory_total_bytes = bytes(v[1]);
  m.compute_utilization_percent = v[2];
  m.power_watts = v[3];
  m.temperature_celsius = v[4];
  m.clock_rate_mhz = v[5];
  return m;
}

std::array<double, std::size(Readings::kReport)> valuesOf(const GPUMetrics& m) {
  auto real = [](const auto& v) { return v ? static_cast<double>(*v) : kNone; };
  return {real(m.memory_used_bytes), real(m.memory_total_bytes),  real(m.compute_utilization_percent),
          real(m.power_watts),       real(m.temperature_celsius), real(m.clock_rate_mhz)};
}

std::string isoTime(int64_t unix_ns) {
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[40];
  const size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(unix_ns / 1'000'000 % 1000));
  return text;
}

/// When the newest report says it was measured, raw clock; 0: there is none.
int64_t newestNs(const Latest::View& view, int32_t device) {
  int64_t newest = 0;
  for (Metric metric : Readings::kReport) {
    const Latest::Cell& cell = view.get(metric, device);
    if (cell.known() && (newest == 0 || cell.now.ts_ns > newest)) newest = cell.now.ts_ns;
  }
  return newest;
}

/// A sum over the devices that have the value.
struct Sum {
  double sum = 0;
  uint64_t count = 0;
  void add(std::optional<double> value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  std::optional<double> total() const { return count ? std::optional(sum) : std::nullopt; }
  std::optional<double> mean() const { return count ? std::optional(sum / static_cast<double>(count)) : std::nullopt; }
};

}  // namespace

TelemetryCollector::TelemetryCollector(size_t max_history)
    : own_(std::make_unique<Latest>(max_history)), latest_(own_.get()), unix_minus_raw_(unixMinusRaw()) {}

TelemetryCollector::TelemetryCollector(const Latest& latest) : latest_(&latest), unix_minus_raw_(unixMinusRaw()) {}

TelemetryCollector::~TelemetryCollector() = default;

Status TelemetryCollector::record(int32_t device, const GPUMetrics& metrics, int64_t seen_ns) {
  if (!own_) return Status::invalid("the sampler of this node records its telemetry: there is nothing to add");
  TS_TRY(check(metrics));
  const int64_t ts_ns = toNs(metrics.timestamp) - unix_minus_raw_;
  int64_t before_ns = 0;
  own_->read([&](const Latest::View& view) { before_ns = newestNs(view, device); });
  if (before_ns != 0 && ts_ns < before_ns)
    return Status::invalid("metrics of '" + metrics.device_id + "': the timestamp is before that of the last report");
  const auto values = valuesOf(metrics);
  std::array<hardware::Sample, std::size(Readings::kReport)> samples;
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = {ts_ns, device, &metricInfo(Readings::kReport[i]), {}, values[i]};
  own_->samples(samples, orNow(seen_ns));
  return {};
}

std::optional<GPUMetrics> TelemetryCollector::latest(int32_t device, double max_age_s, int64_t now_ns) const {
  std::optional<GPUMetrics> out;
  latest_->read([&](const Latest::View& view) {
    const Readings readings(view, max_age_s, orNow(now_ns));
    const int64_t seen_ns = readings.seenNs(device);
    if (seen_ns == 0 || !readings.fresh(seen_ns)) return;
    Values values;
    for (size_t i = 0; i < values.size(); ++i) values[i] = readings.get(Readings::kReport[i], device);
    out = metricsOf(values, toSeconds(newestNs(view, device) + unix_minus_raw_));
  });
  return out;
}

std::vector<GPUMetrics> TelemetryCollector::history(int32_t device) const {
  std::vector<GPUMetrics> out;
  if (!own_) return out;
  latest_->read([&](const Latest::View& view) {
    // record() adds to all of them, so that they are in step.
    const size_t count = view.history(Readings::kReport[0], device).size();
    for (size_t i = 0; i < count; ++i) {
      Values values;
      for (size_t k = 0; k < values.size(); ++k) {
        const double value = view.history(Readings::kReport[k], device)[i].value;
        if (!std::isnan(value)) values[k] = value;
      }
      out.push_back(
          metricsOf(values, toSeconds(view.history(Readings::kReport[0], device)[i].ts_ns + unix_minus_raw_)));
    }
  });
  return out;
}

void TelemetryCollector::forget(int32_t device) {
  if (own_) own_->forget(device);
}

AggregatedMetrics TelemetryCollector::aggregate(const std::vector<int32_t>& devices, double max_age_s,
                                                int64_t now_ns) const {
  AggregatedMetrics out;
  out.device_count = devices.size();
  Sum total, used, available, utilization, temperature, power;
  int64_t newest_ns = 0;
  latest_->read([&](const Latest::View& view) {
    const Readings readings(view, max_age_s, orNow(now_ns));
    for (int32_t device : devices) {
      const int64_t seen_ns = readings.seenNs(device);
      if (seen_ns == 0) continue;
      if (!readings.fresh(seen_ns)) {
        ++out.stale_count;
        continue;
      }
      ++out.reporting_count;
      if (const int64_t ts_ns = newestNs(view, device); newest_ns == 0 || ts_ns > newest_ns) newest_ns = ts_ns;
      const std::optional<double> in_use = readings.get(Metric::gpu_memory_used_bytes, device),
                                  whole = readings.get(Metric::gpu_memory_total_bytes, device);
      total.add(whole);
      used.add(in_use);
      if (in_use && whole) available.add(*whole - *in_use);
      utilization.add(readings.get(Metric::gpu_utilization_percent, device));
      temperature.add(readings.get(Metric::gpu_temperature_celsius, device));
      power.add(readings.get(Metric::gpu_power_watts, device));
    }
  });
  out.total_memory_bytes = bytes(total.total());
  out.used_memory_bytes = bytes(used.total());
  out.available_memory_bytes = bytes(available.total());
  out.average_utilization_percent = utilization.mean();
  out.average_temperature_celsius = temperature.mean();
  out.total_power_watts = power.total();
  if (out.reporting_count > 0) out.timestamp = isoTime(newest_ns + unix_minus_raw_);
  return out;
}

}  // namespace tracesmith::schedule
