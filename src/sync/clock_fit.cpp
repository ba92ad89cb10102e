#include "sync/clock_fit.hpp"

#include <algorithm>
#include <cmath>

#include "sync/clock_limits.hpp"

namespace tracesmith::sync {
namespace {

constexpr double kMaxDrift = 1e-3;  // 1000 ppm: no working clock is that bad
constexpr double kUnknownDrift = 2e-4;
constexpr double kStampNoise = 50;   // ns: reading a clock is not instantaneous
constexpr size_t kMostPoints = 512;  // kept, at most
constexpr int kSteps = 64;           // of a search by thirds: 1000 ppm / 1.5^64 is nothing

}  // namespace

ClockFit::Line ClockFit::limits(double b) const {
  Line line{-INFINITY, INFINITY};
  for (const Corner& c : lower_) line.low = std::max(line.low, c.value - b * c.t);
  for (const Corner& c : upper_) line.high = std::min(line.high, c.value - b * c.t);
  return line;
}

/// Of hundreds of limits a line touches only those on their convex hull, which are a few: asking for a model costs
/// little, and agents ask fifty times a second.
void ClockFit::findCorners() {
  lower_.clear();
  upper_.clear();
  // Sign +1 keeps the hull above the points, −1 that below them.
  auto add = [](std::vector<Corner>& hull, Corner c, double sign) {
    if (!hull.empty() && hull.back().t == c.t) {
      if (sign * (c.value - hull.back().value) <= 0) return;
      hull.pop_back();
    }
    while (hull.size() >= 2) {
      const Corner &x = hull[hull.size() - 2], &y = hull.back();
      if (sign * ((y.t - x.t) * (c.value - x.value) - (y.value - x.value) * (c.t - x.t)) < 0) break;
      hull.pop_back();
    }
    hull.push_back(c);
  };
  const int64_t last = points_.back().t;
  for (const Point& p : points_) {
    const auto t = static_cast<double>(p.t - origin_t_);
    const double loose = kStampNoise + kWander * static_cast<double>(last - p.t);
    add(lower_, {t, static_cast<double>(p.lower - origin_offset_) - loose}, 1);
    add(upper_, {t, static_cast<double>(p.upper - origin_offset_) + loose}, -1);
  }
}

double ClockFit::best(double& margin) const {
  const double b = argLargest(-kMaxDrift, kMaxDrift, [&](double x) { return limits(x).margin(); });
  margin = limits(b).margin();
  return b;
}

bool ClockFit::add(std::span<const Exchange> burst) {
  std::deque<Point> fresh;
  for (const Exchange& e : burst) {
    if (e.t4 < e.t1 || e.t3 < e.t2) continue;
    // The offset is meant at the middle; until t1 and t4 it may drift a little.
    const auto drift = static_cast<int64_t>(kMaxDrift * static_cast<double>(e.t4 - e.t1) / 2);
    fresh.push_back({e.t1 + (e.t4 - e.t1) / 2, e.t3 - e.t4 - drift, e.t2 - e.t1 + drift});
    origin_offset_ = e.offset();
  }
  if (fresh.empty()) return true;
  bool fits = points_.empty() || fresh.front().t >= points_.back().t;  // else our own clock went back
  if (!fits) points_.clear();
  points_.insert(points_.end(), fresh.begin(), fresh.end());
  origin_t_ = points_.back().t;
  while (points_.front().t < origin_t_ - window_ns_) points_.pop_front();
  if (points_.size() > kMostPoints) thin();
  findCorners();
  double margin;
  best(margin);
  if (margin < 0) {
    points_ = fresh;
    findCorners();
    fits = false;
    best(margin);
    if (margin < 0) {  // it was set within the burst
      points_ = {fresh.back()};
      findCorners();
    }
  }
  faults_ += !fits;
  solve();
  return fits;
}

/// Of neighbouring pairs only what limits the line stays.
void ClockFit::thin() {
  std::deque<Point> kept;
  const double b = b_;
  for (size_t i = 0; i + 1 < points_.size(); i += 2) {
    const Point &x = points_[i], &y = points_[i + 1];
    const auto move = static_cast<int64_t>(b * static_cast<double>(y.t - x.t));
    // Both limits of the pair at the later time, loosened by what the rate may have been off.
    const auto loose = static_cast<int64_t>(kWander * 5 * static_cast<double>(y.t - x.t));
    kept.push_back({y.t, std::max(y.lower, x.lower + move - loose), std::min(y.upper, x.upper + move + loose)});
  }
  if (points_.size() % 2) kept.push_back(points_.back());
  points_ = std::move(kept);
}

void ClockFit::solve() {
  double margin;
  b_ = best(margin);
  auto fits = [&](double b) { return limits(b).margin() >= 0; };
  auto edge = [&](double inside, double outside) {
    if (fits(outside)) return outside;
    for (int i = 0; i < kSteps; ++i) {
      const double middle = (inside + outside) / 2;
      (fits(middle) ? inside : outside) = middle;
    }
    return inside;
  };
  b_low_ = edge(b_, -kMaxDrift);
  b_high_ = edge(b_, kMaxDrift);
  // The first burst says nothing about the rate: what fits it best is chance, and most clocks are good.
  if (b_high_ - b_low_ > kUnknownDrift) b_ = std::clamp(0.0, b_low_, b_high_);
  best_delay_ = INT64_MAX;
  for (const Point& p : points_) best_delay_ = std::min(best_delay_, p.upper - p.lower);
}

ClockModel ClockFit::at(int64_t now_ns) const {
  ClockModel model;
  model.at_ns = now_ns;
  if (points_.empty()) return model;
  const auto t = static_cast<double>(now_ns - origin_t_);
  const Line line = limits(b_);
  const double a = (line.low + line.high) / 2;
  model.drift_ppm = b_ * 1e6;
  const double here = a + b_ * t;
  model.offset_ns = origin_offset_ + std::llround(here);
  auto upper = [&](double b) { return limits(b).high + b * t; };
  auto lower = [&](double b) { return -(limits(b).low + b * t); };
  const double high = upper(argLargest(b_low_, b_high_, upper));
  const double low = -lower(argLargest(b_low_, b_high_, lower));
  const double wander = kWander * std::abs(t);
  model.bound_ns = static_cast<int64_t>(std::ceil(std::max(high - here, here - low) + wander + kStampNoise));
  return model;
}

}  // namespace tracesmith::sync
