#include "schedule/speed.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/statistics.hpp"

namespace tracesmith::schedule {

namespace {
constexpr size_t kFirst = 5;           // steps of which the median is taken: the first of a program are often slow
constexpr double kEwma = 0.2;          // weight of the newest step afterwards
constexpr double kUsual = 0.02;        // what is usual follows shorter times slowly, so noise does not lower it
constexpr size_t kLevels = 32;         // changes that are remembered
constexpr int64_t kRecent = 384;       // steps that show which part of the time a rank is slow
constexpr size_t kBatches = 8;         // numbers of samples that are remembered
constexpr double kSpread = 0.15;       // of the largest batch: closer batches say nothing about the fixed part
constexpr double kMostFixed = 0.95;    // of a step
constexpr double kMeasureSlip = 1.01;  // busy and wall come from two readings of a clock
}  // namespace

Status SpeedTracker::add(const StepMeasure& m) {
  const bool valid = std::isfinite(m.busy_s) && m.busy_s > 0 && m.samples > 0 && m.step >= 0 &&
                     std::isfinite(m.wall_s) && m.wall_s >= 0 && (m.wall_s == 0 || m.busy_s <= m.wall_s * kMeasureSlip);
  if (!valid) {
    ++refused_;
    return Status::invalid("step " + std::to_string(m.step) + ": " + std::to_string(m.samples) + " samples in " +
                           std::to_string(m.busy_s) + " s of a step of " + std::to_string(m.wall_s) +
                           " s is no measurement");
  }
  newest_ = m.step;
  Average& average = averageAt(m.samples);
  if (farOff(average, m.busy_s)) {
    pending_.push_back(m.busy_s);
    if (pending_.size() < kToChange) return {};
    change(average, m.step);
    compare(average, std::max<int64_t>(m.step - kToChange + 1, 0));
  } else {
    pending_.clear();
    include(average, m.busy_s);
    ++steps_;
    compare(average, m.step);
  }
  fit();
  return {};
}

SpeedTracker::Average& SpeedTracker::averageAt(int64_t samples) {
  const auto at =
      std::find_if(averages_.begin(), averages_.end(), [&](const Average& a) { return a.samples == samples; });
  if (at == averages_.end()) {
    pending_.clear();
    if (averages_.size() == kBatches) averages_.erase(averages_.begin());
    averages_.push_back({.samples = samples, .expected_s = expected(samples), .first = {}});
  } else if (at + 1 != averages_.end()) {
    pending_.clear();
    std::rotate(at, at + 1, averages_.end());
  }
  return averages_.back();
}

bool SpeedTracker::farOff(const Average& average, double busy_s) {
  const double usual = average.count < kToChange ? average.expected_s : average.time_s;
  if (usual == 0 || std::abs(busy_s - usual) <= kFarOff * usual) return false;
  if (!pending_.empty() && (pending_.back() > usual) != (busy_s > usual)) pending_.clear();
  return true;
}

double SpeedTracker::expected(int64_t samples) const {
  for (auto a = averages_.rbegin(); a != averages_.rend(); ++a) {
    const auto by = static_cast<double>(std::abs(a->samples - samples));
    if (a->count >= kToChange && by <= kSameBatch * static_cast<double>(a->samples))
      return a->time_s * cost_.time(samples) / cost_.time(a->samples);
  }
  return 0;
}

void SpeedTracker::change(Average& average, int64_t step) {
  // All batches become slower or faster alike, until they are measured again.
  const double factor = median(pending_) / (average.count < kToChange ? average.expected_s : average.time_s);
  for (Average& a : averages_) {
    a.time_s *= factor;
    a.usual_s = std::min(a.usual_s, a.time_s);
    for (double& t : a.first) t *= factor;
  }
  average.count = kToChange;
  average.first = pending_;
  average.time_s = median(pending_);
  if (average.usual_s == 0) average.usual_s = average.time_s / std::max(slowdown_ * factor, 1.0);
  steps_ = kToChange;
  pending_.clear();
  last_change_ = step;
  ++changes_;
  levels_.push_back({step, levels_.back().time_s * factor});
  if (levels_.size() > kLevels) levels_.erase(levels_.begin());
}

void SpeedTracker::include(Average& average, double busy_s) {
  ++average.count;
  if (average.first.size() < kFirst) {
    average.first.push_back(busy_s);
    average.time_s = median(average.first);
    average.usual_s = average.time_s / slowdown_;
  } else {
    average.time_s += kEwma * (busy_s - average.time_s);
    average.usual_s += kUsual * std::min(average.time_s - average.usual_s, 0.0);
  }
}

void SpeedTracker::compare(const Average& average, int64_t step) {
  slowdown_ = std::max(average.time_s / average.usual_s, 1.0);
  if (slowdown_ >= kSlow && !slow_since_) slow_since_ = step;
  if (slowdown_ < kAsUsual) slow_since_.reset();
}

void SpeedTracker::fit() {
  // A line through the averages, weighted by their steps, moved through the batch in use.
  const Average& now = averages_.back();
  double weight = 0, n = 0, t = 0;
  int64_t least = now.samples, most = now.samples;
  for (const Average& a : averages_) {
    const auto w = static_cast<double>(std::min<int64_t>(a.count, kFirst));
    weight += w;
    n += w * static_cast<double>(a.samples);
    t += w * a.time_s;
    least = std::min(least, a.samples);
    most = std::max(most, a.samples);
  }
  double fixed = std::min(cost_.fixed_s, kMostFixed * now.time_s);
  if (weight > 0 && static_cast<double>(most - least) >= kSpread * static_cast<double>(most)) {
    double nn = 0, nt = 0;
    for (const Average& a : averages_) {
      const auto w = static_cast<double>(std::min<int64_t>(a.count, kFirst));
      const double dn = static_cast<double>(a.samples) - n / weight;
      nn += w * dn * dn;
      nt += w * dn * (a.time_s - t / weight);
    }
    const double slope = nn > 0 ? nt / nn : 0;
    fixed = std::clamp(now.time_s - slope * static_cast<double>(now.samples), 0.0, kMostFixed * now.time_s);
  }
  cost_ = {fixed, (now.time_s - fixed) / static_cast<double>(now.samples)};
}

bool SpeedTracker::unsteady() const {
  return levels_.size() > kUnsteady && newest_ - levels_[levels_.size() - kUnsteady].step <= kUnsteadySteps;
}

RankCost SpeedTracker::costToPlan(double share) const {
  if (!unsteady()) return cost_;
  double least = levels_.back().time_s, most = least;
  for (const Level& level : levels_) {
    least = std::min(least, level.time_s);
    most = std::max(most, level.time_s);
  }
  double steps[2] = {}, times[2] = {};  // in fast and in slow times
  for (size_t i = 0; i < levels_.size(); ++i) {
    const int64_t until = i + 1 < levels_.size() ? levels_[i + 1].step : newest_ + 1;
    const auto held = static_cast<double>(std::max<int64_t>(until - std::max(levels_[i].step, newest_ - kRecent), 0));
    const bool slow = levels_[i].time_s > (least + most) / 2;
    steps[slow] += held;
    times[slow] += held * levels_[i].time_s;
  }
  if (steps[0] == 0 || steps[1] == 0) return cost_;
  const double fast = times[0] / steps[0], slow = times[1] / steps[1], slower = slow / fast;
  // With batches for its fast times, a step takes `slower` times as long in slow times; with those for its slow times,
  // every step takes 1 / (1 - share * (1 - 1 / slower)) times as long, because the others have its samples.
  const double part = steps[1] / (steps[0] + steps[1]);
  const bool for_slow = 1 + part * (slower - 1) > 1 / (1 - share * (1 - 1 / slower));
  const double factor = (for_slow ? slow : fast) / levels_.back().time_s;
  return {cost_.fixed_s * factor, cost_.per_sample_s * factor};
}

double SpeedTracker::speed() const {
  if (averages_.empty()) return 0;
  const int64_t samples = averages_.back().samples;
  return static_cast<double>(samples) / cost_.time(samples);
}

}  // namespace tracesmith::schedule
