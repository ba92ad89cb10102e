// Ranks on GPUs: groups that exchange much are near each other; checked against all orders on small clusters.
#include "schedule/placement.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tracesmith::schedule {
namespace {

/// Nodes of so many GPUs, with fast links inside pairs, as with NVLink bridges.
PlacementDevices pairsOf(int nodes, int gpus, double pair_gbps) {
  PlacementDevices devices;
  for (int n = 0; n < nodes; ++n)
    for (int g = 0; g < gpus; ++g)
      devices.addDevice("n" + std::to_string(n) + ":" + std::to_string(g), "n" + std::to_string(n));
  for (int n = 0; n < nodes; ++n)
    for (int g = 0; g < gpus / 2; ++g) {  // 0 with the middle one, and so on: not neighbours by number
      const std::string node = "n" + std::to_string(n) + ":";
      EXPECT_TRUE(devices.setLink({node + std::to_string(g), node + std::to_string(g + gpus / 2), pair_gbps}));
    }
  return devices;
}

std::string deviceOf(const Placement& p, uint32_t rank) { return p.ranks.at(rank).device_id; }

TEST(Placement, TensorGroupsShareTheFastLinks) {
  const PlacementDevices devices = pairsOf(2, 4, 300);
  PlacementRequest job;
  job.tensor = 2;
  job.data = 4;
  const Result<Placement> p = place(devices, job);
  ASSERT_TRUE(p) << p.status().message();
  EXPECT_TRUE(p->exact);
  EXPECT_LT(p->cost, p->naive_cost);
  for (uint32_t rank = 0; rank < 8; rank += 2) {
    const std::string a = deviceOf(*p, rank), b = deviceOf(*p, rank + 1);
    EXPECT_EQ(a.substr(0, 3), b.substr(0, 3));
    EXPECT_EQ(std::abs(a.back() - b.back()), 2) << a << " " << b;
  }
  EXPECT_GT(p->assumed_links, 0u);
}

TEST(Placement, OfAJobThatIsSmallerThanTheClusterTakesTheBestGpus) {
  PlacementDevices devices = pairsOf(1, 6, 1);
  ASSERT_TRUE(devices.setLink({"n0:2", "n0:4", 300}));
  PlacementRequest job;
  job.tensor = 2;
  const Result<Placement> p = place(devices, job);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->ranks.size(), 2u);
  EXPECT_EQ(std::set<std::string>({deviceOf(*p, 0), deviceOf(*p, 1)}), std::set<std::string>({"n0:2", "n0:4"}));
}

TEST(Placement, OfAPipelineFollowsTheChain) {
  PlacementDevices devices;
  for (int i = 0; i < 5; ++i) devices.addDevice(std::to_string(i), "n");
  for (const auto& [a, b] : {std::pair("0", "3"), {"3", "1"}, {"1", "4"}, {"4", "2"}})
    ASSERT_TRUE(devices.setLink({a, b, 400}));
  PlacementRequest job;
  job.pipeline = 5;
  const Result<Placement> p = place(devices, job);
  ASSERT_TRUE(p);
  EXPECT_NEAR(p->cost, 4 * job.pipeline_weight / 400, 1e-6);
}

TEST(Placement, SearchIsWithinFivePercentOfTheBestOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    PlacementDevices devices;
    const int nodes = 1 + static_cast<int>(random() % 3), all = 6 + static_cast<int>(random() % 2);
    for (int d = 0; d < all; ++d)
      devices.addDevice(std::to_string(d), std::to_string(static_cast<int>(random()) % nodes));
    for (int a = 0; a < all; ++a)
      for (int b = 0; b < a; ++b) {
        if (random() % 2 != 0) continue;
        ASSERT_TRUE(devices.setLink({std::to_string(a), std::to_string(b), 1 + static_cast<double>(random() % 300)}));
      }
    PlacementRequest job;
    const uint32_t shapes[][3] = {{2, 3, 1}, {3, 2, 1}, {2, 1, 3}, {1, 6, 1}, {1, 2, 3}};
    const auto& shape = shapes[random() % 5];
    job.tensor = shape[0], job.data = shape[1], job.pipeline = shape[2];
    const Result<Placement> best = place(devices, job), found = place(devices, job, 0);
    ASSERT_TRUE(best && found);
    EXPECT_TRUE(best->exact && !found->exact);
    EXPECT_LE(found->cost, best->cost * 1.05) << "round " << round;
    EXPECT_LE(found->cost, found->naive_cost);
    EXPECT_GE(found->cost, best->cost * (1 - 1e-9));
  }
}

TEST(Placement, OfManyNodesIsNeverWorseThanTheNaiveOrder) {
  const PlacementDevices devices = pairsOf(8, 8, 300);
  PlacementRequest job;
  job.tensor = 4;
  job.data = 8;
  job.pipeline = 2;
  const Result<Placement> p = place(devices, job);
  ASSERT_TRUE(p);
  EXPECT_LE(p->cost, p->naive_cost);
  std::set<std::string> used;
  for (const Placed& rank : p->ranks) used.insert(rank.device_id);
  EXPECT_EQ(used.size(), 64u);
}

TEST(Placement, ThatCannotBeIsRefused) {
  PlacementDevices devices = pairsOf(1, 2, 100);
  PlacementRequest job;
  job.tensor = 3;
  EXPECT_EQ(place(devices, job).status().message(), "the job has 3 ranks, and there are 2 GPUs");
  job.tensor = 0;
  EXPECT_FALSE(place(devices, job));
  job.tensor = 4'000'000'000, job.data = 4'000'000'000;
  EXPECT_FALSE(place(devices, job));
  job = {};
  job.groups = {{{0, 1, 1}, 1, false}};
  EXPECT_FALSE(place(devices, job));
  job.groups = {{{0, 1}, -1, false}};
  EXPECT_FALSE(place(devices, job));
  job.groups = {{{0, UINT32_MAX}, 1, false}};
  EXPECT_FALSE(place(devices, job));
  EXPECT_FALSE(devices.setLink({"n0:0", "n0:9", 1}));
  EXPECT_FALSE(devices.setLink({"n0:0", "n0:0", 1}));
  EXPECT_FALSE(place(PlacementDevices(), {}));
}

}  // namespace
}  // namespace tracesmith::schedule
