#include "tracesmith/cluster/clock_correlator.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"

namespace tracesmith::cluster {
namespace {

constexpr size_t kMostPoints = 4096;
constexpr double kFarOff = 5;  // times the median distance from the line

struct Fit {
  double a = 0, b = 0, r_squared = 0;
};

/// Line through (x, y) by least squares.
Fit leastSquares(const std::vector<std::pair<double, double>>& p) {
  const auto n = static_cast<double>(p.size());
  double mx = 0, my = 0, sxx = 0, sxy = 0, syy = 0;
  for (auto [x, y] : p) mx += x / n, my += y / n;
  for (auto [x, y] : p) {
    sxx += (x - mx) * (x - mx);
    sxy += (x - mx) * (y - my);
    syy += (y - my) * (y - my);
  }
  Fit fit;
  fit.b = sxx > 0 ? sxy / sxx : 0;
  fit.a = my - fit.b * mx;
  fit.r_squared = sxx > 0 && syy > 0 ? sxy * sxy / (sxx * syy) : 1;
  return fit;
}

}  // namespace

void ClockCorrelator::addCorrelationPoint(const std::string& source_id, Timestamp source_time,
                                          Timestamp reference_time) {
  std::lock_guard lock(mutex_);
  std::vector<CorrelationPoint>& points = correlation_data_[source_id];
  if (points.size() == kMostPoints) points.erase(points.begin(), points.begin() + kMostPoints / 4);
  points.push_back({source_time, reference_time});
}

int64_t ClockCorrelator::calculateOffset(const std::string& source_id) const {
  std::lock_guard lock(mutex_);
  auto it = correlation_data_.find(source_id);
  if (it == correlation_data_.end()) return 0;
  const CorrelationPoint& last = it->second.back();
  const DriftModel model = modelLocked(it->second);
  if (!model.valid) return static_cast<int64_t>(last.reference_time - last.source_time);
  const auto since = static_cast<double>(last.source_time - it->second.front().source_time);
  return std::llround(model.offset + model.drift_rate * since / 1e9);
}

ClockCorrelator::DriftModel ClockCorrelator::modelLocked(const std::vector<CorrelationPoint>& points) const {
  DriftModel model;
  if (points.size() < 2) return model;
  // Relative to the first point, so that doubles are exact.
  const CorrelationPoint& first = points.front();
  const auto base = static_cast<int64_t>(first.reference_time - first.source_time);
  std::vector<std::pair<double, double>> all;
  for (const CorrelationPoint& p : points)
    all.emplace_back(static_cast<double>(static_cast<int64_t>(p.source_time - first.source_time)) / 1e9,
                     static_cast<double>(static_cast<int64_t>(p.reference_time - p.source_time) - base));
  // The line that outliers do not move: median of the slopes between points half the series apart (Theil–Sen, thinned).
  std::vector<double> slopes, rest, distance;
  const size_t half = all.size() / 2;
  for (size_t i = 0; i + half < all.size(); ++i)
    if (const double dx = all[i + half].first - all[i].first; dx != 0)
      slopes.push_back((all[i + half].second - all[i].second) / dx);
  if (slopes.empty()) return model;
  const double slope = median(slopes);
  for (auto [x, y] : all) rest.push_back(y - slope * x);
  const double level = median(rest);
  for (double r : rest) distance.push_back(std::abs(r - level));
  const double limit = kFarOff * std::max(median(distance), 1.0);
  std::vector<std::pair<double, double>> kept;
  for (size_t i = 0; i < all.size(); ++i)
    if (distance[i] <= limit) kept.push_back(all[i]);
  if (kept.size() < 2) return model;
  const Fit fit = leastSquares(kept);
  model.offset = static_cast<double>(base) + fit.a;
  model.drift_rate = fit.b;
  model.r_squared = fit.r_squared;
  model.valid = true;
  return model;
}

ClockCorrelator::DriftModel ClockCorrelator::calculateDriftModel(const std::string& source_id) const {
  std::lock_guard lock(mutex_);
  auto it = correlation_data_.find(source_id);
  return it == correlation_data_.end() ? DriftModel{} : modelLocked(it->second);
}

void ClockCorrelator::correctTimestamps(const std::string& source_id, std::vector<TraceEvent>& events) const {
  std::lock_guard lock(mutex_);
  auto it = correlation_data_.find(source_id);
  if (it == correlation_data_.end()) return;
  const CorrelationPoint& first = it->second.front();
  DriftModel model = modelLocked(it->second);
  // The offset in two parts: a double alone would lose nanoseconds of Unix times.
  const auto base = static_cast<int64_t>(first.reference_time - first.source_time);
  const double rest = model.valid ? model.offset - static_cast<double>(base) : 0;
  for (TraceEvent& event : events) {
    const auto since = static_cast<double>(static_cast<int64_t>(event.timestamp - first.source_time));
    event.timestamp += static_cast<Timestamp>(base + std::llround(rest + model.drift_rate * since / 1e9));
    event.duration =
        static_cast<uint64_t>(std::llround(static_cast<double>(event.duration) * (1 + model.drift_rate / 1e9)));
  }
}

}  // namespace tracesmith::cluster
