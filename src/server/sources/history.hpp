// The last hour of live metrics, a frame each second.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::server {

/// Values of one metric over time, on common times; NaN where nothing was measured.
struct MetricSeries {
  struct Line {
    std::string node;
    int64_t index = 0;  ///< −1: the host
    std::string name;
    std::vector<double> values;
  };
  int64_t t0 = 0;  ///< ns
  double step_ms = 0;
  size_t points = 0;  ///< times are t0 + i × step
  std::vector<Line> lines;
};

struct SeriesQuery {
  std::string metric;
  std::vector<std::string> nodes;  ///< empty: all
  std::vector<int64_t> gpus;       ///< empty: all
  int64_t from = INT64_MIN, to = INT64_MAX;
  size_t points = 1000;
};

/// Thread safe.
class MetricHistory {
 public:
  void add(const cluster::LiveStatus& live);
  MetricSeries series(const SeriesQuery& query) const;

 private:
  struct Frame {
    int64_t t;
    std::vector<std::vector<float>> values;  // by metric, then by GPU; shorter where there were fewer
  };
  mutable std::mutex mutex_;               // guards what follows
  std::map<std::string, size_t> metrics_;  // those that ever had a value
  std::map<std::pair<std::string, uint32_t>, size_t> gpus_;
  std::vector<std::string> gpu_names_;
  std::deque<Frame> frames_;
};

/// Means of samples that fall into the same step; NaN where none does.
class Binned {
 public:
  Binned(int64_t t0, double step_ms, size_t points)
      : t0_(t0), step_ns_(step_ms * 1e6), sums_(points), counts_(points) {}
  void add(int64_t t, double value) {
    const double at = static_cast<double>(t - t0_) / step_ns_;
    if (at < 0 || at >= static_cast<double>(sums_.size())) return;
    sums_[static_cast<size_t>(at)] += value;
    ++counts_[static_cast<size_t>(at)];
  }
  std::vector<double> means() const;

 private:
  int64_t t0_;
  double step_ns_;
  std::vector<double> sums_;
  std::vector<uint32_t> counts_;
};

}  // namespace tracesmith::server
