#include "server/sources/history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/natural_order.hpp"
#include "hardware/metrics.hpp"

namespace tracesmith::server {
namespace {

constexpr size_t kFrames = 3600;
constexpr double kFreshSeconds = 3;  // an older report is no measurement of now
constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

}  // namespace

bool isBits(std::string_view metric) { return metric == metricInfo(hardware::Metric::gpu_throttle_reasons).name; }

int64_t samplePeriod(std::vector<int64_t> distances) {
  std::erase_if(distances, [](int64_t d) { return d <= 0; });
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  const int64_t gap = 3 * *middle;
  int64_t longest = 0;
  for (int64_t d : distances)
    if (d <= gap) longest = std::max(longest, d);
  return longest;
}

void setTimes(model::MetricSeries& series, int64_t first_ns, size_t points) {
  series.t0_ns = first_ns - static_cast<int64_t>(series.step_ms * 5e5);
  for (size_t i = 0; i < points; ++i)
    series.times.push_back(std::llround((static_cast<double>(i) + 0.5) * series.step_ms));
}

std::vector<double> Binned::means() const {
  std::vector<double> out(sums_.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = counts_[i] > 0 ? sums_[i] / counts_[i] : std::numeric_limits<double>::quiet_NaN();
  return out;
}

void MetricHistory::add(const cluster::LiveStatus& live) {
  std::lock_guard lock(mutex_);
  Frame frame{live.now_ns, std::vector<std::vector<float>>(metrics_.size())};
  for (const cluster::LiveNode& node : live.nodes) {
    if (node.age_s > kFreshSeconds) continue;
    for (const model::GpuState& gpu : node.report.gpus) {
      auto [it, added] = gpus_.try_emplace({node.report.node, gpu.index}, gpus_.size());
      if (added) gpu_names_.push_back(gpu.name);
      for (const model::Metric& m : gpu.metrics) {
        if (!m.value) continue;
        const size_t metric = metrics_.try_emplace(m.name, metrics_.size()).first->second;
        if (frame.values.size() <= metric) frame.values.resize(metric + 1);
        std::vector<float>& values = frame.values[metric];
        if (values.size() <= it->second) values.resize(it->second + 1, kNone);
        values[it->second] = static_cast<float>(*m.value);
      }
    }
  }
  frames_.push_back(std::move(frame));
  if (frames_.size() > kFrames) frames_.pop_front();
}

model::MetricSeries MetricHistory::series(const SeriesQuery& q) const {
  std::lock_guard lock(mutex_);
  model::MetricSeries out;
  const auto metric = metrics_.find(q.metric);
  const auto first =
      std::lower_bound(frames_.begin(), frames_.end(), q.from, [](const Frame& f, int64_t t) { return f.t < t; });
  const auto last = std::upper_bound(first, frames_.end(), q.to, [](int64_t t, const Frame& f) { return t < f.t; });
  if (first == last || metric == metrics_.end()) return out;
  const auto frames = static_cast<size_t>(last - first);
  const double span_ms = std::max(1.0, static_cast<double>(std::prev(last)->t - first->t) / 1e6);
  // No shorter than reports are apart, so that a step without a value says that there was none.
  std::vector<int64_t> distances;
  for (auto f = first; std::next(f) != last; ++f) distances.push_back(std::next(f)->t - f->t);
  out.step_ms = std::max(frames > 1 ? static_cast<double>(samplePeriod(std::move(distances))) / 1e6 : 1000.0,
                         span_ms / static_cast<double>(q.points));
  out.step_ms = std::max(out.step_ms, 1.0);
  setTimes(out, first->t, static_cast<size_t>(span_ms / out.step_ms) + 1);
  for (const auto& [key, gpu] : gpus_) {
    if (!q.nodes.empty() && std::find(q.nodes.begin(), q.nodes.end(), key.first) == q.nodes.end()) continue;
    if (!q.gpus.empty() && std::find(q.gpus.begin(), q.gpus.end(), key.second) == q.gpus.end()) continue;
    Binned bins(out, isBits(q.metric));
    for (auto f = first; f != last; ++f) {
      if (metric->second >= f->values.size() || gpu >= f->values[metric->second].size()) continue;
      const float v = f->values[metric->second][gpu];
      if (!std::isnan(v)) bins.add(f->t, v);
    }
    out.series.push_back({key.first, key.second, gpu_names_[gpu], bins.means()});
  }
  std::stable_sort(out.series.begin(), out.series.end(), [](const model::MetricLine& a, const model::MetricLine& b) {
    return naturalOrder(a.node, b.node) < 0;
  });
  return out;
}

}  // namespace tracesmith::server
