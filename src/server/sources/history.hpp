// The last hour of live metrics, a frame each second.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/api.hpp"

namespace tracesmith::server {

/// Values of one metric over time, on common times; NaN where nothing was measured.
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
  model::MetricSeries series(const SeriesQuery& query) const;

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

/// What is called "..._per_second" of a counter.
constexpr std::string_view kPerSecond = "_per_second";

/// Whether the values of a metric are bits of a mask, of which there is no mean.
bool isBits(std::string_view metric);

/// The longest of the usual times between samples that lie in order, so that each step of that length has one: what is
/// more than three times the median is a gap. 0: there are fewer than two.
int64_t samplePeriod(std::vector<int64_t> distances);

/// Sets the times of a series whose step is known: the first step has its middle at `first_ns`.
void setTimes(model::MetricSeries& series, int64_t first_ns, size_t points);

/// Means of samples that fall into the same step of a series, of bit masks all bits of them; NaN where none does.
class Binned {
 public:
  explicit Binned(const model::MetricSeries& series, bool bits = false)
      : t0_(series.t0_ns),
        step_ns_(series.step_ms * 1e6),
        bits_(bits),
        sums_(series.times.size()),
        counts_(series.times.size()) {}
  void add(int64_t t, double value) {
    const double at = static_cast<double>(t - t0_) / step_ns_;
    if (at < 0 || at >= static_cast<double>(sums_.size())) return;
    double& sum = sums_[static_cast<size_t>(at)];
    if (bits_)
      sum = static_cast<double>(static_cast<uint64_t>(sum) | static_cast<uint64_t>(value));
    else
      sum += value;
    uint32_t& count = counts_[static_cast<size_t>(at)];
    count = bits_ ? 1 : count + 1;
  }
  std::vector<double> means() const;

 private:
  int64_t t0_;
  double step_ns_;
  bool bits_;
  std::vector<double> sums_;
  std::vector<uint32_t> counts_;
};

}  // namespace tracesmith::server
