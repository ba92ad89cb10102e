#include "analysis/live/change.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/statistics.hpp"

namespace tracesmith::analysis::live {
namespace {

/// How many values are looked at, by how many standard errors their median must lie above what came before, and which
/// part of them above three quarters of it. The fewer they are, the more often chance would have its way.
struct Window {
  size_t count;
  double errors, most;
};
constexpr Window kWindows[] = {{3, 0, 1}, {6, 8, 1}, {12, 6.5, 0.85}, {24, 5.5, 0.75}};
constexpr size_t kLeastBefore = 10, kLeastForSmall = 24, kMostBefore = 60;
constexpr double kDeviations = 8;
constexpr double kQuarter = 0.75;
constexpr double kUnsure = 6;       // of few values the spread is not well known: it counts as larger by this / number
constexpr double kOfMedian = 1.25;  // standard error of a median against that of a mean

}  // namespace

/// Above (or below) what came before, or nothing.
std::optional<Change> ChangeDetector::compare(size_t which) const {
  const auto& [count, errors, most] = kWindows[which];
  if (values_.size() < count + (which == 0 ? kLeastBefore : kLeastForSmall)) return {};
  const size_t split = values_.size() - count, begin = split > kMostBefore ? split - kMostBefore : 0;
  std::vector<double> before, last;
  for (size_t i = begin; i < split; ++i) before.push_back(values_[i].value);
  for (size_t i = split; i < values_.size(); ++i) last.push_back(values_[i].value);
  std::sort(before.begin(), before.end());
  std::sort(last.begin(), last.end());
  const double usual = upperQuantileOfSorted(before, 0.5), now = upperQuantileOfSorted(last, 0.5), change = now - usual;
  const bool up = change > 0;
  // Of both sides the spread is taken where the change goes to: pauses make some values large, none small.
  const double deviation =
      (up ? upperQuantileOfSorted(before, 0.9) - usual : usual - upperQuantileOfSorted(before, 0.1)) / 1.2816 *
      (1 + kUnsure / static_cast<double>(before.size()));
  const double least = relative_ ? least_ * std::abs(usual) : least_;
  bool found = false;
  if (which == 0) {
    const double needed = std::max(least, kDeviations * deviation);
    found = up ? last.front() - usual > needed : usual - last.back() > needed;
  } else {
    const double sizes = 1 / static_cast<double>(last.size()) + 1 / static_cast<double>(before.size());
    const double limit = upperQuantileOfSorted(before, up ? kQuarter : 1 - kQuarter);
    const auto beyond = std::count_if(last.begin(), last.end(), [&](double v) { return up ? v > limit : v < limit; });
    found = std::abs(change) > std::max(least, errors * kOfMedian * deviation * std::sqrt(sizes)) &&
            static_cast<double>(beyond) >= most * static_cast<double>(last.size());
  }
  if (!found) return {};
  return Change{values_[split].t_ns, usual, now};
}

std::optional<Change> ChangeDetector::add(double value, int64_t t_ns) {
  values_.push_back({value, t_ns});
  if (values_.size() > kMostBefore + std::end(kWindows)[-1].count) values_.pop_front();
  for (size_t which = 0; which < std::size(kWindows); ++which) {
    const std::optional<Change> change = compare(which);
    if (!change) continue;
    values_.erase(values_.begin(),
                  values_.end() - static_cast<std::ptrdiff_t>(kWindows[which].count));  // the new normal
    if (change->after < change->before) return {};
    return change;
  }
  return {};
}

}  // namespace tracesmith::analysis::live
