// The balancer on simulated clusters, against the best of all divisions.
#include "schedule/simulated_cluster.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace tracesmith::schedule {
namespace {

using test::kA100, test::kCpu, test::kT4, test::kV100;
using test::SimulatedCluster, test::SimulatedRun, test::Device;

std::string all(const SimulatedRun& run) {
  std::string out;
  for (const std::string& line : run.said) out += line + "\n";
  return out;
}

/// Part of the best throughput in a step.
double efficiency(const SimulatedCluster& cluster, const SimulatedRun& run, int64_t step) {
  return cluster.bestStep(step) / run.seconds[static_cast<size_t>(step)];
}

void expectNearBest(const SimulatedCluster& cluster, const SimulatedRun& run, int64_t from, int64_t until) {
  ASSERT_GE(static_cast<int64_t>(run.seconds.size()), until) << all(run);
  for (int64_t step = from; step < until; ++step)
    ASSERT_GE(efficiency(cluster, run, step), 0.97) << step << "\n" << all(run);
}

TEST(SimulatedCluster, IsNearTheBestAfterTwentySteps) {
  const std::vector<std::vector<Device>> clusters = {{kA100, kV100, kT4, kCpu},    {kA100, kA100, kT4}, {kV100, kT4},
                                                     {kA100, kA100, kA100, kA100}, {kT4, kCpu},         {kCpu, kA100}};
  for (const std::vector<Device>& devices : clusters) {
    for (const Policy policy : {Policy::dynamic, Policy::hybrid}) {
      SimulatedCluster cluster(devices, 192);
      cluster.config.policy = policy;
      for (const Device& d : devices) cluster.config.most_batch.push_back(d.memory);
      const SimulatedRun run = cluster.run(300);
      expectNearBest(cluster, run, 20, 300);
      EXPECT_LE(run.changes, 6) << all(run);
      EXPECT_EQ(run.out_of_memory, 0);
      for (const std::vector<int64_t>& batches : run.batches)
        ASSERT_EQ(std::accumulate(batches.begin(), batches.end(), int64_t{0}), 192);
    }
  }
}

TEST(SimulatedCluster, FourToTwoToOneBecomesEvenAndStaysSo) {
  SimulatedCluster cluster({{"4", 0, 400, 512}, {"2", 0, 200, 512}, {"1", 0, 100, 512}}, 448);
  const SimulatedRun run = cluster.run(300);
  ASSERT_EQ(run.batches.size(), 300u) << all(run);
  for (size_t step = 20; step < 300; ++step) {
    double shortest = 1e9, longest = 0;
    for (int64_t r = 0; r < 3; ++r) {
      const double time = cluster.trueTime(r, 0, run.batches[step][static_cast<size_t>(r)]);
      shortest = std::min(shortest, time);
      longest = std::max(longest, time);
    }
    EXPECT_LT((longest - shortest) / longest, 0.05) << step << "\n" << all(run);
  }
  EXPECT_LE(run.changes, 2) << all(run);
}

TEST(SimulatedCluster, TellsWhichRankBecameSlowAndWhenItRecovered) {
  SimulatedCluster cluster({kA100, kV100, kV100}, 192);
  cluster.slowdown = [](int64_t rank, int64_t step) { return rank == 2 && step >= 60 && step < 120 ? 1.8 : 1.0; };
  const SimulatedRun run = cluster.run(180);
  ASSERT_EQ(run.seconds.size(), 180u) << all(run);
  std::vector<std::string> news;
  for (const std::string& line : run.said) {
    if (line.rfind("Rank ", 0) == 0) news.push_back(line);
  }
  ASSERT_EQ(news.size(), 2u) << all(run);
  EXPECT_EQ(news[0], "Rank 2 has been slow since step 60: its steps take 1.8 times as long as usual.");
  EXPECT_EQ(news[1], "Rank 2 is as fast as usual again, in step 122.");
}

TEST(SimulatedCluster, FollowsADeviceThatThrottlesAndRecovers) {
  SimulatedCluster cluster({kA100, kV100, kT4}, 192);
  cluster.slowdown = [](int64_t rank, int64_t step) { return rank == 0 && step >= 100 && step < 200 ? 2.5 : 1.0; };
  const SimulatedRun run = cluster.run(300);
  expectNearBest(cluster, run, 20, 100);
  expectNearBest(cluster, run, 125, 200);
  expectNearBest(cluster, run, 230, 300);
  EXPECT_LE(run.changes, 10) << all(run);
}

TEST(SimulatedCluster, DoesNotSwingWithANoisyNeighbour) {
  SimulatedCluster cluster({kV100, kV100, kT4}, 160);
  cluster.slowdown = [](int64_t rank, int64_t step) { return rank == 1 && step / 12 % 2 ? 1.6 : 1.0; };
  const SimulatedRun run = cluster.run(1000);
  ASSERT_EQ(run.seconds.size(), 1000u) << all(run);
  EXPECT_LE(run.changes, 8) << all(run);  // the neighbour came and went 41 times
  // From then on, batches for the slow times: the neighbour does not make a step longer.
  for (size_t step = 100; step < 1000; ++step)
    EXPECT_LE(run.seconds[step], 1.05 * cluster.bestStep(12)) << step << "\n" << all(run);
}

TEST(SimulatedCluster, ARankThatLiesDoesLittleHarm) {
  SimulatedCluster cluster({kV100, kV100, kV100}, 96);
  cluster.lie = [](int64_t rank, int64_t) { return rank == 2 ? 0.1 : 1.0; };
  const SimulatedRun run = cluster.run(400);
  ASSERT_EQ(run.seconds.size(), 400u);
  EXPECT_NE(all(run).find("back to the plan before"), std::string::npos) << all(run);
  EXPECT_GT(run.speed(0, 400), 0.8 / cluster.bestStep(0)) << all(run);
}

TEST(SimulatedCluster, ARankThatMeasuresNonsenseKeepsTheJobAsItIs) {
  SimulatedCluster cluster({kA100, kV100, kT4}, 192);
  cluster.lie = [](int64_t rank, int64_t) { return rank == 1 ? std::numeric_limits<double>::quiet_NaN() : 1.0; };
  const SimulatedRun run = cluster.run(50);
  ASSERT_EQ(run.seconds.size(), 50u);
  EXPECT_EQ(run.changes, 0) << all(run);
  ASSERT_EQ(run.said.size(), 1u);
  EXPECT_NE(run.said[0].find("Left out: rank 1, step 0: 64 samples in"), std::string::npos) << run.said[0];
}

TEST(SimulatedCluster, ABatchThatDidNotFitIsNeverTriedAgain) {
  SimulatedCluster cluster({kA100, {"small", 0.012, 1200, 40}, kT4}, 192);
  cluster.config.most_batch = {512, 512, 96};  // wrong
  const SimulatedRun run = cluster.run(100);
  ASSERT_EQ(run.seconds.size(), 100u) << all(run);
  int64_t failed = std::numeric_limits<int64_t>::max();
  for (size_t step = 1; step < run.batches.size(); ++step) {
    const int64_t before = run.batches[step - 1][1], now = run.batches[step][1];
    if (before > 40) failed = std::min(failed, before);
    if (now != before) {
      EXPECT_LT(now, failed) << step << "\n" << all(run);
    }
  }
  EXPECT_GT(run.out_of_memory, 0);
  EXPECT_LE(run.batches.back()[1], 40);
  EXPECT_GE(run.batches.back()[1], 30);
}

}  // namespace
}  // namespace tracesmith::schedule
