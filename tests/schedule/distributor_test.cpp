// Splitting work: the shares are right, add up, and keep to the limits.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tracesmith/schedule/workload_distributor.hpp"

namespace tracesmith::schedule {
namespace {

using Counts = std::vector<uint64_t>;

Counts counts(const Result<std::vector<Share>>& shares) {
  EXPECT_TRUE(shares.ok()) << shares.status().message();
  Counts out;
  if (shares.ok())
    for (const Share& s : *shares) out.push_back(s.count);
  return out;
}

Weights weights(const std::vector<double>& values) {
  Weights out;
  for (size_t i = 0; i < values.size(); ++i) out.emplace_back("cuda:" + std::to_string(i), values[i]);
  return out;
}

Counts capacity(uint64_t count, const std::vector<double>& values, const WorkLimits& limits = {}) {
  return counts(WorkloadDistributor::byCapacity(count, weights(values), limits));
}

Counts layers(uint64_t count, const std::vector<double>& memory, uint64_t layer_bytes = 0) {
  return counts(WorkloadDistributor::layersByMemory(count, weights(memory), layer_bytes));
}

const std::vector<std::string> kThree = {"a", "b", "c"};

TEST(Distributor, UniformSharesDifferByOneAtMost) {
  EXPECT_EQ(counts(WorkloadDistributor::uniform(9, kThree)), (Counts{3, 3, 3}));
  EXPECT_EQ(counts(WorkloadDistributor::uniform(10, kThree)), (Counts{4, 3, 3}));
  EXPECT_EQ(counts(WorkloadDistributor::uniform(2, kThree)), (Counts{1, 1, 0}));
  EXPECT_EQ(counts(WorkloadDistributor::uniform(0, kThree)), (Counts{0, 0, 0}));
}

TEST(Distributor, CapacityGivesSharesInProportion) {
  EXPECT_EQ(capacity(16, {1, 2, 1}), (Counts{4, 8, 4}));
  EXPECT_EQ(capacity(12, {1, 2, 1}), (Counts{3, 6, 3}));
  EXPECT_EQ(capacity(128, {10, 6, 3}), (Counts{67, 41, 20}));
  EXPECT_EQ(capacity(2, {1, 1, 1}), (Counts{1, 1, 0}));
  EXPECT_EQ(capacity(4, {1000, 1, 1, 1}), (Counts{4, 0, 0, 0}));
}

TEST(Distributor, ADeviceOfCapacityZeroGetsNothing) { EXPECT_EQ(capacity(5, {1, 0, 1}), (Counts{3, 0, 2})); }

TEST(Distributor, CapacitiesThatMeanNothingAreErrors) {
  for (const std::vector<double>& bad : {std::vector<double>{0, 0}, {1, -1}, {1, std::nan("")}, {1, INFINITY}, {}})
    EXPECT_EQ(WorkloadDistributor::byCapacity(5, weights(bad)).status().code(), Code::kInvalid);
  EXPECT_EQ(WorkloadDistributor::byCapacity(5, {{"a", 1}, {"a", 2}}).status().message(), "device 'a' is listed twice");
  EXPECT_EQ(WorkloadDistributor::uniform(5, {}).status().message(), "there is no device to give work to");
}

TEST(Distributor, WhatDoesNotFitIsAnErrorAndNotLeftOut) {
  EXPECT_EQ(counts(WorkloadDistributor::uniform(15, kThree, {5})), (Counts{5, 5, 5}));
  const Result<std::vector<Share>> much = WorkloadDistributor::uniform(16, kThree, {5});
  ASSERT_FALSE(much.ok());
  EXPECT_EQ(much.status().message(), "16 tasks do not fit: the limits leave room for 15");
  EXPECT_FALSE(WorkloadDistributor::byCapacity(6, weights({1, 0}), {5}).ok());
}

TEST(Distributor, WhatADeviceMayNotTakeGoesToTheOthers) {
  EXPECT_EQ(capacity(16, {1, 2, 1}, {6}), (Counts{5, 6, 5}));
  EXPECT_EQ(capacity(16, {1, 2, 1}, {{}, {{"cuda:1", 2}}}), (Counts{7, 2, 7}));
  EXPECT_EQ(WorkloadDistributor::byCapacity(1, weights({1}), {{}, {{"x", 2}}}).status().code(), Code::kNotFound);
}

TEST(Distributor, LayersFollowMemoryAndEveryDeviceHasOne) {
  EXPECT_EQ(layers(12, {.25, .25, .5}), (Counts{3, 3, 6}));
  EXPECT_EQ(layers(20, {.975, .0125, .0125}), (Counts{18, 1, 1}));
  EXPECT_EQ(layers(12, {312, 518, 1024}), (Counts{2, 3, 7}));
  EXPECT_EQ(WorkloadDistributor::layersByMemory(2, weights({1, 1, 1})).status().message(),
            "2 layers cannot be split over 3 devices");
}

TEST(Distributor, LayersThatDoNotFitIntoMemoryAreAnError) {
  EXPECT_EQ(layers(10, {80, 40, 40}, 10), (Counts{5, 3, 2}));
  EXPECT_EQ(layers(16, {80, 40, 40}, 10), (Counts{8, 4, 4}));
  EXPECT_FALSE(WorkloadDistributor::layersByMemory(17, weights({80, 40, 40}), 10).ok());
  EXPECT_EQ(WorkloadDistributor::layersByMemory(3, weights({80, 5}), 10).status().message(),
            "device 'cuda:1' has no memory for a layer: leave it out");
}

/// Whatever the capacities and limits are, the shares add up, keep to the limits, and are within one of the exact share
/// where no limit is near.
TEST(Distributor, SharesOfRandomClustersAddUp) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const size_t devices = 1 + random() % 20;
    const uint64_t count = random() % 1000, most = random() % 200;
    std::vector<double> values(devices);
    for (double& v : values) v = random() % 4 == 0 ? 0 : std::exp(static_cast<double>(random() % 100) / 10);
    const bool limited = random() % 2;
    const WorkLimits limits = limited ? WorkLimits{most} : WorkLimits{};
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const auto able =
        static_cast<uint64_t>(std::count_if(values.begin(), values.end(), [](double v) { return v > 0; }));
    const Result<std::vector<Share>> shares = WorkloadDistributor::byCapacity(count, weights(values), limits);
    ASSERT_EQ(shares.ok(), able > 0 && (!limited || able * most >= count)) << round;
    if (!shares.ok()) continue;
    uint64_t total = 0;
    for (size_t i = 0; i < devices; ++i) {
      const uint64_t share = (*shares)[i].count;
      total += share;
      if (limited) {
        ASSERT_LE(share, most) << round;
      } else {
        ASSERT_LT(std::abs(static_cast<double>(share) - static_cast<double>(count) * values[i] / sum), 1.0) << round;
      }
      if (values[i] == 0) {
        ASSERT_EQ(share, 0u) << round;
      }
    }
    ASSERT_EQ(total, count) << round;
  }
}

}  // namespace
}  // namespace tracesmith::schedule
