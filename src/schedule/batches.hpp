// How the samples of a step are divided among ranks.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "schedule/speed.hpp"

namespace tracesmith::schedule {

/// What a rank can take in one step.
struct BatchLimits {
  int64_t least = 1;
  int64_t most = std::numeric_limits<int64_t>::max();          ///< samples in a step
  int64_t most_at_once = std::numeric_limits<int64_t>::max();  ///< samples in a micro-batch: what memory holds
};

/// The micro-batches that `samples` need: at most `most_at_once` in each.
int64_t microBatches(int64_t samples, const BatchLimits& limits);

/// Whole numbers with the sum `total` that are proportional to `weights`, as closely as the limits allow. Largest
/// remainder: what rounding down leaves goes to the largest fractions. A weight that is no positive number gets
/// `least`.
Result<std::vector<int64_t>> proportionalBatches(int64_t total, const std::vector<double>& weights,
                                                 const std::vector<BatchLimits>& limits);

/// Whole numbers with the sum `total` whose slowest rank is as fast as possible; exact. A rank whose cost is not known
/// (not positive) keeps `least`.
Result<std::vector<int64_t>> fastestBatches(int64_t total, const std::vector<RankCost>& costs,
                                            const std::vector<BatchLimits>& limits);

/// Of the slowest rank.
double stepTime(const std::vector<int64_t>& batches, const std::vector<RankCost>& costs,
                const std::vector<BatchLimits>& limits);

/// What each rank's mean gradient counts in the mean of all samples; their sum is 1.
std::vector<double> gradientWeights(const std::vector<int64_t>& batches);

}  // namespace tracesmith::schedule
