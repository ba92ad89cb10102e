// Metrics as they are at one moment, without a format: Prometheus' text, remote write, OTLP, InfluxDB and StatsD are
// all made from this. Names and units are Prometheus' (base units at the end, _total on counters).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracesmith {

/// Names and values, in the order in which they are shown.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

enum class MetricType { gauge, counter };

struct MetricSample {
  MetricLabels labels;
  double value = 0;
};

/// All values of one name.
struct MetricFamily {
  std::string name;
  MetricType type = MetricType::gauge;
  std::string help;
  std::vector<MetricSample> samples;
};

class MetricSet {
 public:
  void begin(std::string name, MetricType type, std::string help) {
    families_.push_back({std::move(name), type, std::move(help), {}});
  }
  /// Of the name begun last.
  void value(MetricLabels labels, double v) { families_.back().samples.push_back({std::move(labels), v}); }
  void append(MetricSet more) {
    for (MetricFamily& family : more.families_) families_.push_back(std::move(family));
  }
  const std::vector<MetricFamily>& families() const { return families_; }

 private:
  std::vector<MetricFamily> families_;
};

/// Prometheus' text format: a HELP and a TYPE for each name, then its values.
std::string prometheusText(const MetricSet& metrics);

}  // namespace tracesmith
