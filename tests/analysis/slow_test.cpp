// The watcher of a cluster: ranks and links that become slower.
#include "analysis/hang_fixture.hpp"

namespace tracesmith::analysis::live {
namespace {

/// Steps of a job of eight ranks, half a second each.
class Slow : public ::testing::Test {
 protected:
  std::vector<Alert> pass(int seconds, int slow_rank, double late, double transfer = 1) {
    std::vector<Alert> alerts;
    for (int i = 0; i < 2 * seconds; ++i) {
      now_ns_ += kS / 2;
      NodeReport node;
      node.node = "a";
      for (int r = 0; r < 8; ++r) {
        ProcessReport& p = node.processes.emplace_back();
        p.pid = 100 + r;
        p.rank = r;
        CommState c{kWorld, "world", r, 8, 0, {}, {}};
        // Whoever is late waits less; a step takes as long for all.
        const double wait = 50e6 + (slow_rank >= 0 && r != slow_rank ? late * 500e6 : 0) + 1e5 * ((i + r) % 3);
        c.transfers.push_back({"all_reduce", 1 << 20, 4, static_cast<int64_t>(2e6 * transfer + 1e3 * (i % 5)), 0});
        p.comms.push_back(c);
        p.steps.push_back(
            {step_, static_cast<int64_t>(500e6 + (slow_rank >= 0 ? late * 500e6 : 0)), static_cast<int64_t>(wait)});
      }
      for (int r = 0; r < 2 && rollouts_wait_ns_ > 0; ++r) {
        ProcessReport& p = node.processes.emplace_back();
        p.pid = 200 + r;
        p.rank = r;
        p.role = "rollout";
        p.comms.push_back({kWorld, "world", -1, 8, 0, {}, {}});
        p.steps.push_back({step_, 700'000'000, rollouts_wait_ns_});
      }
      ++step_;
      watcher_.take(node, now_ns_);
      for (Alert& a : watcher_.look(now_ns_)) alerts.push_back(std::move(a));
    }
    return alerts;
  }
  Watcher watcher_;
  int64_t now_ns_ = 1000 * kS, step_ = 0;
  int64_t rollouts_wait_ns_ = 0;  // in each step of theirs; 0: there are none
};

TEST_F(Slow, AnEvenJobIsQuiet) { EXPECT_TRUE(pass(600, -1, 0).empty()); }

TEST_F(Slow, ARankThatBecomesSlowerIsNamedOnce) {
  EXPECT_TRUE(pass(120, -1, 0).empty());
  const std::vector<Alert> alerts = pass(120, 5, 0.1);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].kind, AlertKind::slow_rank);
  EXPECT_NE(alerts[0].text.find("rank 5 on a"), std::string::npos) << alerts[0].text;
  EXPECT_TRUE(pass(120, -1, 0).empty()) << "getting well is no alert";
}

TEST_F(Slow, StepsOfAnotherRoleAreNotCompared) {
  rollouts_wait_ns_ = 50'000'000;
  EXPECT_TRUE(pass(120, -1, 0).empty());
  rollouts_wait_ns_ = 1'000'000;  // less than the trainers: they are not late for those
  EXPECT_TRUE(pass(120, -1, 0).empty());
}

TEST_F(Slow, ALinkThatBecomesSlowerIsNamed) {
  EXPECT_TRUE(pass(120, -1, 0).empty());
  const std::vector<Alert> alerts = pass(60, -1, 0, 1.5);
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(alerts[0].kind, AlertKind::slow_link);
}

TEST(ChangeDetector, TakesNoNoiseForAChange) {
  ChangeDetector d(0.05, true);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(d.add(100 + i * 7919 % 13, i));
  std::optional<Change> found;
  for (int i = 1000; i < 1010 && !found; ++i) found = d.add(180 + i * 7919 % 13, i);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->t_ns, 1000);
}

TEST(ChangeDetector, SeesASmallChangeInNoiseInTheEnd) {
  // Noise of ± 6 around 100, and 5 more: too little for three values, enough for some more.
  ChangeDetector d(0.02, true);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(d.add(100 + i * 7919 % 13, i));
  std::optional<Change> found;
  int at = 200;
  for (; at < 260 && !found; ++at) found = d.add(108 + at * 7919 % 13, at);
  ASSERT_TRUE(found);
  EXPECT_GT(at, 203);
  EXPECT_NEAR(found->after - found->before, 8, 4);
}

TEST(ChangeDetector, PausesInSomeValuesAreNoChange) {
  ChangeDetector d(0.02, true);
  uint64_t random = 1;
  for (int i = 0; i < 5000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    EXPECT_FALSE(d.add((random >> 40) % 5 == 0 ? 200 : 100 + static_cast<double>(i % 3), i)) << i;
  }
}

}  // namespace
}  // namespace tracesmith::analysis::live
