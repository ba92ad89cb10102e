#include "hardware/metrics.hpp"

#include <vector>

namespace tracesmith::hardware {
namespace {

const std::vector<MetricInfo>& all() {
  static const std::vector<MetricInfo> kAll = {
#define METRIC(name, unit, kind, rate, step, help) {#name, unit, MetricKind::kind, Rate::rate, step, help},
#include "hardware/metrics.def"
  };
  return kAll;
}

}  // namespace

const MetricInfo& metricInfo(Metric metric) { return all()[static_cast<size_t>(metric)]; }
std::span<const MetricInfo> metrics() { return all(); }

}  // namespace tracesmith::hardware
