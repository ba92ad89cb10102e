#include "schedule/layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace tracesmith::schedule {
namespace {

using Counts = std::vector<int64_t>;

double slowestOf(const Counts& counts, const std::vector<LayerCost>& layers, const std::vector<Stage>& stages) {
  double slowest = 0;
  size_t at = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    double time = 0, memory = 0, output = 0;
    for (int64_t i = 0; i < counts[s]; ++i, ++at) {
      time += layers[at].time_s;
      memory += layers[at].memory_bytes;
      output = layers[at].output_bytes;
    }
    if (stages[s].memory_bytes > 0 && memory > stages[s].memory_bytes) return std::numeric_limits<double>::infinity();
    time /= stages[s].speed;
    if (s + 1 < stages.size() && stages[s].link_bytes_per_s > 0) time += output / stages[s].link_bytes_per_s;
    slowest = std::max(slowest, time);
  }
  return slowest;
}

double bruteForce(const std::vector<LayerCost>& layers, const std::vector<Stage>& stages) {
  double best = std::numeric_limits<double>::infinity();
  Counts counts(stages.size());
  std::function<void(size_t, int64_t)> divide = [&](size_t s, int64_t rest) {
    if (s + 1 == stages.size()) {
      counts[s] = rest;
      best = std::min(best, slowestOf(counts, layers, stages));
      return;
    }
    for (int64_t n = 1; n <= rest - static_cast<int64_t>(stages.size() - s - 1); ++n) {
      counts[s] = n;
      divide(s + 1, rest - n);
    }
  };
  divide(0, static_cast<int64_t>(layers.size()));
  return best;
}

TEST(Layers, GoWhereTheyAreFast) {
  const Result<LayerPartition> p = partitionLayers(std::vector<LayerCost>(12, {1, 0, 0}), {{.speed = 4}, {.speed = 2}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->layers, (Counts{8, 4}));
  EXPECT_DOUBLE_EQ(p->slowest_s, 2);
}

TEST(Layers, AreAsFastAsTheBestOfAllDivisions) {
  std::mt19937 random(5);
  auto real = [&](double from, double to) { return std::uniform_real_distribution<double>(from, to)(random); };
  int impossible = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<LayerCost> layers(4 + random() % 7);
    for (LayerCost& l : layers) l = {real(0.1, 2), real(1, 10), real(0, 5)};
    std::vector<Stage> stages(1 + random() % 4);
    for (Stage& s : stages) s = {real(0.5, 4), random() % 2 ? real(10, 40) : 0, random() % 2 ? real(1, 20) : 0};
    const Result<LayerPartition> p = partitionLayers(layers, stages);
    const double best = bruteForce(layers, stages);
    if (std::isinf(best)) {
      EXPECT_EQ(p.status().code(), Code::kExhausted);
      ++impossible;
      continue;
    }
    ASSERT_TRUE(p) << p.status().message();
    EXPECT_NEAR(p->slowest_s, best, 1e-9);
    EXPECT_NEAR(slowestOf(p->layers, layers, stages), best, 1e-9);
    EXPECT_EQ(std::accumulate(p->layers.begin(), p->layers.end(), int64_t{0}), static_cast<int64_t>(layers.size()));
  }
  EXPECT_GT(impossible, 10);
}

TEST(Layers, SayWhyTheyCannotBeDivided) {
  EXPECT_EQ(partitionLayers({{1, 0, 0}}, {{}, {}}).status().message(),
            "1 layer cannot be divided among 2 stages: each needs at least one");
  EXPECT_FALSE(partitionLayers({{1, 0, 0}}, {}));
  EXPECT_FALSE(partitionLayers({{std::nan(""), 0, 0}}, {{}}));
  EXPECT_FALSE(partitionLayers({{1, 0, 0}}, {{.speed = 0}}));
  EXPECT_EQ(partitionLayers({{1, 9, 0}, {1, 9, 0}}, {{.memory_bytes = 8}, {}}).status().message(),
            "the model does not fit: no division of 2 layers among 2 stages keeps to the memory of each");
}

}  // namespace
}  // namespace tracesmith::schedule
