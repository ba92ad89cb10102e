#include "sync/clock_limits.hpp"

#include <algorithm>
#include <cmath>

namespace tracesmith::sync {

std::optional<Range> LineLimits::at(double t, double max_slope) const {
  // For a slope, the range of values at t. A limit far from t is loosened by what the rate may have changed since.
  auto high = [&](double slope) {
    double value = INFINITY;
    for (const Limit& l : upper_) value = std::min(value, l.value + slope * (t - l.t) + kWander * std::abs(t - l.t));
    return value;
  };
  auto low = [&](double slope) {
    double value = -INFINITY;
    for (const Limit& l : lower_) value = std::max(value, l.value + slope * (t - l.t) - kWander * std::abs(t - l.t));
    return value;
  };
  if (lower_.empty() && upper_.empty()) return Range{-INFINITY, INFINITY};
  if (lower_.empty()) return Range{-INFINITY, high(argLargest(-max_slope, max_slope, high))};
  if (upper_.empty()) return Range{low(argLargest(-max_slope, max_slope, [&](double s) { return -low(s); })), INFINITY};
  auto room = [&](double slope) { return high(slope) - low(slope); };
  const double inside = argLargest(-max_slope, max_slope, room);
  if (room(inside) < 0) return std::nullopt;
  auto edge = [&](double outside) {
    if (room(outside) >= 0) return outside;
    double in = inside;
    for (int i = 0; i < 64; ++i) {
      const double middle = (in + outside) / 2;
      (room(middle) >= 0 ? in : outside) = middle;
    }
    return in;
  };
  const double first = edge(-max_slope), last = edge(max_slope);
  return Range{low(argLargest(first, last, [&](double s) { return -low(s); })), high(argLargest(first, last, high))};
}

void LineLimits::thin(double from, double to, size_t n) {
  auto keep = [&](std::vector<Limit>& limits, double sign) {
    if (limits.size() <= n) return;
    std::vector<Limit> best(n, {0, INFINITY});
    for (const Limit& l : limits) {
      const double place = (l.t - from) / (to - from) * static_cast<double>(n);
      Limit& b = best[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(n - 1)))];
      if (sign * l.value < b.value) b = {l.t, sign * l.value};
    }
    limits.clear();
    for (const Limit& b : best)
      if (b.value < INFINITY) limits.push_back({b.t, sign * b.value});
  };
  keep(upper_, 1);
  keep(lower_, -1);
}

Differences::Differences(size_t n) : n_(n), most_(n * n, INFINITY) {
  for (size_t i = 0; i < n; ++i) most_[i * n + i] = 0;
}

void Differences::atMost(size_t from, size_t to, double value) {
  double& most = most_[from * n_ + to];
  most = std::min(most, value);
}

bool Differences::close() {
  for (size_t via = 0; via < n_; ++via)
    for (size_t from = 0; from < n_; ++from) {
      const double there = most_[from * n_ + via];
      if (there == INFINITY) continue;
      for (size_t to = 0; to < n_; ++to)
        most_[from * n_ + to] = std::min(most_[from * n_ + to], there + most_[via * n_ + to]);
    }
  for (size_t i = 0; i < n_; ++i)
    if (most_[i * n_ + i] < 0) return false;
  return true;
}

}  // namespace tracesmith::sync
