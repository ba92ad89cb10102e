#include "schedule/batches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace tracesmith::schedule {
namespace {

using Batches = std::vector<int64_t>;

std::vector<BatchLimits> unlimited(size_t ranks) { return std::vector<BatchLimits>(ranks); }

Batches proportional(int64_t total, const std::vector<double>& weights, const std::vector<BatchLimits>& limits) {
  const Result<Batches> batches = proportionalBatches(total, weights, limits);
  EXPECT_TRUE(batches) << batches.status().message();
  return batches ? *batches : Batches{};
}

/// The shortest step of all divisions there are.
double bruteForce(int64_t total, const std::vector<RankCost>& costs, const std::vector<BatchLimits>& limits) {
  double best = std::numeric_limits<double>::infinity();
  Batches batches(costs.size());
  std::function<void(size_t, int64_t)> divide = [&](size_t r, int64_t rest) {
    if (r + 1 == costs.size()) {
      if (rest < limits[r].least || rest > limits[r].most) return;
      batches[r] = rest;
      best = std::min(best, stepTime(batches, costs, limits));
      return;
    }
    for (int64_t n = limits[r].least; n <= std::min(rest, limits[r].most); ++n) {
      batches[r] = n;
      divide(r + 1, rest - n);
    }
  };
  divide(0, total);
  return best;
}

TEST(Proportional, TheLargestRemainderGetsWhatIsLeft) {
  EXPECT_EQ(proportional(128, {10, 6, 3}, unlimited(3)), (Batches{67, 41, 20}));
  EXPECT_EQ(proportional(128, {1, 1, 1, 1}, unlimited(4)), (Batches{32, 32, 32, 32}));
  EXPECT_EQ(proportional(10, {1, 1, 1}, unlimited(3)), (Batches{4, 3, 3}));
  EXPECT_EQ(proportional(7, {4, 2, 1}, unlimited(3)), (Batches{4, 2, 1}));
}

TEST(Proportional, NobodyGetsLessThanOneAndTheSumIsExact) {
  EXPECT_EQ(proportional(4, {1000, 1, 1, 1}, unlimited(4)), (Batches{1, 1, 1, 1}));
  EXPECT_EQ(proportional(100, {1000, 1, 1, 1}, unlimited(4)), (Batches{97, 1, 1, 1}));
}

TEST(Proportional, WhoIsFullLeavesTheRestToTheOthers) {
  std::vector<BatchLimits> limits = unlimited(3);
  limits[0].most = 40;
  EXPECT_EQ(proportional(128, {10, 6, 3}, limits), (Batches{40, 59, 29}));
  limits[1].most = 8;
  EXPECT_EQ(proportional(128, {10, 6, 3}, limits), (Batches{40, 8, 80}));
}

TEST(Proportional, AWeightThatIsNoNumberGetsTheLeast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(proportional(9, {nan, 1, -3}, unlimited(3)), (Batches{1, 7, 1}));
  EXPECT_EQ(proportional(9, {nan, nan, 0}, unlimited(3)), (Batches{3, 3, 3}));
  EXPECT_EQ(proportional(9, {std::numeric_limits<double>::infinity(), 1, 1}, unlimited(3)), (Batches{1, 4, 4}));
}

TEST(Proportional, SaysWhyItIsImpossible) {
  EXPECT_EQ(proportionalBatches(2, {1, 1, 1}, unlimited(3)).status().message(),
            "a batch of 2 is too small for 3 ranks, which take at least 3");
  std::vector<BatchLimits> limits(2, {.least = 1, .most = 10});
  EXPECT_EQ(proportionalBatches(64, {1, 1}, limits).status().code(), Code::kExhausted);
  EXPECT_FALSE(proportionalBatches(64, {}, {}));
  limits[0].most = 0;
  EXPECT_FALSE(proportionalBatches(4, {1, 1}, limits));
}

TEST(Proportional, HoldsForAnyWeightsAndLimits) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const size_t ranks = 1 + random() % 8;
    std::vector<double> weights(ranks);
    std::vector<BatchLimits> limits(ranks);
    int64_t least = 0, most = 0;
    for (size_t r = 0; r < ranks; ++r) {
      weights[r] = random() % 5 == 0 ? 0 : static_cast<double>(random() % 1000) / 10;
      limits[r].least = 1 + random() % 4;
      limits[r].most = limits[r].least + random() % 40;
      least += limits[r].least;
      most += limits[r].most;
    }
    const int64_t total = least + static_cast<int64_t>(random()) % (most - least + 1);
    const Batches batches = proportional(total, weights, limits);
    ASSERT_EQ(batches.size(), ranks);
    EXPECT_EQ(std::accumulate(batches.begin(), batches.end(), int64_t{0}), total);
    for (size_t r = 0; r < ranks; ++r) {
      EXPECT_GE(batches[r], limits[r].least);
      EXPECT_LE(batches[r], limits[r].most);
    }
  }
}

TEST(Fastest, IsAsFastAsTheBestOfAllDivisions) {
  std::mt19937 random(3);
  auto real = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  for (int round = 0; round < 200; ++round) {
    const size_t ranks = 2 + random() % 2;
    std::vector<RankCost> costs(ranks);
    std::vector<BatchLimits> limits(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      costs[r] = {real(0, 0.2), real(0.001, 0.05)};
      if (random() % 2) limits[r].most = 20 + random() % 30;
      if (random() % 3 == 0) limits[r].most_at_once = 4 + random() % 8;
    }
    limits[0].most = BatchLimits{}.most;
    const Result<Batches> batches = fastestBatches(40, costs, limits);
    ASSERT_TRUE(batches) << batches.status().message();
    EXPECT_EQ(std::accumulate(batches->begin(), batches->end(), int64_t{0}), 40);
    EXPECT_NEAR(stepTime(*batches, costs, limits), bruteForce(40, costs, limits), 1e-9);
  }
}

TEST(Fastest, ARankOfUnknownCostKeepsTheLeast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Result<Batches> batches = fastestBatches(20, {{0, 0.1}, {nan, 1}, {0, 0}}, unlimited(3));
  ASSERT_TRUE(batches) << batches.status().message();
  EXPECT_EQ(*batches, (Batches{18, 1, 1}));
}

TEST(Weights, MakeTheMeanThatOfAllSamples) {
  // The mean of ranks' means, weighted, is the mean of all samples.
  const std::vector<std::vector<double>> samples = {{1, 2, 3, 10, 7}, {4}, {5, -2, 8}};
  double sum = 0, weighted = 0;
  Batches batches;
  for (const auto& of_rank : samples) batches.push_back(static_cast<int64_t>(of_rank.size()));
  const std::vector<double> weights = gradientWeights(batches);
  for (size_t r = 0; r < samples.size(); ++r) {
    const double own = std::accumulate(samples[r].begin(), samples[r].end(), 0.0);
    sum += own;
    weighted += weights[r] * own / static_cast<double>(samples[r].size());
  }
  EXPECT_NEAR(weighted, sum / 9, 1e-12);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
}

TEST(MicroBatches, HoldWhatMemoryHolds) {
  const BatchLimits limits{.most_at_once = 8};
  EXPECT_EQ(microBatches(8, limits), 1);
  EXPECT_EQ(microBatches(9, limits), 2);
  EXPECT_EQ(microBatches(64, limits), 8);
  EXPECT_EQ(microBatches(64, BatchLimits{}), 1);
}

}  // namespace
}  // namespace tracesmith::schedule
