// What the sampler measures: see metrics.def.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tracesmith::hardware {

enum class MetricKind : uint8_t { gauge, counter, event };
/// How often a metric is read: cheap ones often.
enum class Rate : uint8_t { fast, slow, rare };
constexpr int kRates = 3;

struct MetricInfo {
  std::string name, unit;
  MetricKind kind;
  Rate rate;
  double step;
  std::string help;
};

/// Numbers of the metrics of metrics.def.
enum class Metric : uint16_t {
#define METRIC(name, unit, kind, rate, step, help) name,
#include "hardware/metrics.def"
  count
};

const MetricInfo& metricInfo(Metric metric);
std::span<const MetricInfo> metrics();

}  // namespace tracesmith::hardware
