// The table `metrics` of a trace, metric by metric: read when first asked for, and kept for whoever zooms.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/sources/history.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {

/// Thread safe. Must not outlive the timeline.
class TraceMetrics {
 public:
  explicit TraceMetrics(const Timeline& timeline) : timeline_(timeline) {}

  std::set<std::string> names();
  Result<model::MetricSeries> series(const SeriesQuery& query);

 private:
  struct Sample {
    int64_t t;  ///< reference clock
    double value;
  };
  struct Line {
    std::string node, part;
    int64_t gpu = -1;
    std::vector<Sample> samples;  ///< by time
  };
  struct Metric {
    std::string name;
    std::vector<Line> lines;  ///< by node, GPU and part
  };
  using MetricPtr = std::shared_ptr<const Metric>;  // shared by the cache and those who read it
  static std::vector<Sample> rates(const std::vector<Sample>& totals);
  Result<MetricPtr> metric(const std::string& name);
  Result<MetricPtr> load(const std::string& name) const;

  const Timeline& timeline_;
  std::mutex mutex_;             // guards what follows; held while one is read: others would read the same
  std::list<MetricPtr> recent_;  // newest first
  std::set<std::string> names_;
  bool names_known_ = false;
};

}  // namespace tracesmith::server
