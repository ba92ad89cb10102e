#include "schedule/batches.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <string>

namespace tracesmith::schedule {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// Whether the limits can hold `total` at all.
Status feasible(int64_t total, size_t ranks, const std::vector<BatchLimits>& limits) {
  if (ranks == 0 || limits.size() != ranks) return Status::invalid("every rank needs its speed and its limits");
  int64_t least = 0, most = 0;
  for (const BatchLimits& l : limits) {
    if (l.least < 0 || l.most < l.least || l.most_at_once < 1)
      return Status::invalid("a rank must take at least " + std::to_string(l.least) + " and may take at most " +
                             std::to_string(std::min(l.most, l.most_at_once)) + " samples: lower the first");
    least += l.least;
    most = most > kUnlimited - l.most ? kUnlimited : most + l.most;
  }
  if (total < least)
    return Status::invalid("a batch of " + std::to_string(total) + " is too small for " + std::to_string(ranks) +
                           " ranks, which take at least " + std::to_string(least));
  if (total > most)
    return Status::exhausted("a batch of " + std::to_string(total) + " does not fit: all ranks together hold " +
                             std::to_string(most) + " samples; lower it, or allow micro-batches");
  return {};
}

/// Shares of `total` by weight, not whole yet. Who would pass a limit is set to it, and the others share the rest.
std::vector<double> shares(int64_t total, std::vector<double> weights, const std::vector<BatchLimits>& limits) {
  const size_t ranks = weights.size();
  std::vector<double> share(ranks, 0);
  std::vector<bool> fixed(ranks, false);
  for (size_t round = 0; round <= ranks; ++round) {
    double rest = static_cast<double>(total), sum = 0;
    for (size_t r = 0; r < ranks; ++r) {
      if (fixed[r])
        rest -= share[r];
      else
        sum += weights[r];
    }
    if (sum <= 0) break;
    double above = 0, below = 0;
    for (size_t r = 0; r < ranks; ++r) {
      if (fixed[r]) continue;
      share[r] = rest * weights[r] / sum;
      above += std::max(0.0, share[r] - static_cast<double>(limits[r].most));
      below += std::max(0.0, static_cast<double>(limits[r].least) - share[r]);
    }
    if (above == 0 && below == 0) break;
    // Only the side that is violated more: what is set to a limit on the other side might not need it then.
    for (size_t r = 0; r < ranks; ++r) {
      if (fixed[r]) continue;
      const auto least = static_cast<double>(limits[r].least), most = static_cast<double>(limits[r].most);
      if (above >= below && share[r] > most) {
        share[r] = most;
        fixed[r] = true;
      } else if (above < below && share[r] < least) {
        share[r] = least;
        fixed[r] = true;
      }
    }
  }
  return share;
}

/// The most samples that take no longer than `time_s`; less than `least` never, more than `most` never.
int64_t samplesWithin(double time_s, const RankCost& cost, const BatchLimits& limits, int64_t total) {
  int64_t low = limits.least, high = std::min(limits.most, total);
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (cost.time(middle, microBatches(middle, limits)) <= time_s)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

bool knownCost(const RankCost& c) {
  return std::isfinite(c.per_sample_s) && c.per_sample_s > 0 && std::isfinite(c.fixed_s) && c.fixed_s >= 0;
}

}  // namespace

int64_t microBatches(int64_t samples, const BatchLimits& limits) {
  return samples <= limits.most_at_once ? 1 : (samples + limits.most_at_once - 1) / limits.most_at_once;
}

Result<std::vector<int64_t>> proportionalBatches(int64_t total, const std::vector<double>& weights,
                                                 const std::vector<BatchLimits>& limits) {
  TS_TRY(feasible(total, weights.size(), limits));
  std::vector<double> known = weights;
  for (double& w : known) {
    if (!std::isfinite(w) || w < 0) w = 0;
  }
  if (std::accumulate(known.begin(), known.end(), 0.0) <= 0) std::fill(known.begin(), known.end(), 1.0);
  const std::vector<double> share = shares(total, known, limits);
  std::vector<int64_t> batches(share.size());
  int64_t rest = total;
  for (size_t r = 0; r < share.size(); ++r) {
    // A share of 3 that was computed as 2.999999999 is 3.
    batches[r] = std::clamp(static_cast<int64_t>(std::floor(share[r] + 1e-9)), limits[r].least, limits[r].most);
    rest -= batches[r];
  }
  auto fraction = [&](size_t r) { return share[r] - static_cast<double>(batches[r]); };
  while (rest != 0) {
    // One sample at a time to, or from, whoever is furthest from its share and may still change.
    const int64_t by = rest > 0 ? 1 : -1;
    size_t best = share.size();
    for (size_t r = 0; r < share.size(); ++r) {
      const int64_t next = batches[r] + by;
      if (next < limits[r].least || next > limits[r].most) continue;
      if (best == share.size() || static_cast<double>(by) * (fraction(r) - fraction(best)) > 1e-9) best = r;
    }
    batches[best] += by;
    rest -= by;
  }
  return batches;
}

Result<std::vector<int64_t>> fastestBatches(int64_t total, const std::vector<RankCost>& costs,
                                            const std::vector<BatchLimits>& given) {
  TS_TRY(feasible(total, costs.size(), given));
  std::vector<BatchLimits> limits = given;
  for (size_t r = 0; r < costs.size(); ++r) {
    if (!knownCost(costs[r])) limits[r].most = limits[r].least;
  }
  TS_TRY(feasible(total, costs.size(), limits));
  // The shortest time in which all samples find a place, by bisection; then what is too many goes away again.
  auto within = [&](double time_s) {
    std::vector<int64_t> batches(costs.size());
    for (size_t r = 0; r < costs.size(); ++r) batches[r] = samplesWithin(time_s, costs[r], limits[r], total);
    return batches;
  };
  auto sum = [](const std::vector<int64_t>& b) { return std::accumulate(b.begin(), b.end(), int64_t{0}); };
  auto timeOf = [&](size_t r, int64_t n) {
    return knownCost(costs[r]) ? costs[r].time(n, microBatches(n, limits[r])) : 0.0;
  };
  double low = 0, high = 0;
  for (size_t r = 0; r < costs.size(); ++r) high = std::max(high, timeOf(r, std::min(total, limits[r].most)));
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (sum(within(middle)) >= total ? high : low) = middle;
  }
  std::vector<int64_t> batches = within(high);
  using Slow = std::pair<double, size_t>;
  std::priority_queue<Slow> slowest;
  for (size_t r = 0; r < costs.size(); ++r) slowest.emplace(timeOf(r, batches[r]), r);
  for (int64_t extra = sum(batches) - total; extra > 0;) {
    const size_t r = slowest.top().second;
    slowest.pop();
    if (batches[r] <= limits[r].least) continue;
    --batches[r];
    --extra;
    slowest.emplace(timeOf(r, batches[r]), r);
  }
  return batches;
}

double stepTime(const std::vector<int64_t>& batches, const std::vector<RankCost>& costs,
                const std::vector<BatchLimits>& limits) {
  double longest = 0;
  for (size_t r = 0; r < batches.size(); ++r)
    longest = std::max(longest, costs[r].time(batches[r], microBatches(batches[r], limits[r])));
  return longest;
}

std::vector<double> gradientWeights(const std::vector<int64_t>& batches) {
  const int64_t total = std::accumulate(batches.begin(), batches.end(), int64_t{0});
  std::vector<double> weights(batches.size(), 0);
  for (size_t r = 0; r < batches.size() && total > 0; ++r)
    weights[r] = static_cast<double>(batches[r]) / static_cast<double>(total);
  return weights;
}

}  // namespace tracesmith::schedule
