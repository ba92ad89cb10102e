// Ranks are compared with ranks on the same model of GPU, and with the same part of a pipeline.
#include <gtest/gtest.h>

#include "analysis/rows/trends.hpp"
#include "analysis/simulated_job.hpp"

namespace tracesmith::analysis {
namespace {

sim::JobConfig fourRanks() {
  sim::JobConfig c;
  c.ranks = c.gpus_per_node = 4;
  c.events = 4 * 25'000;
  c.seed = 5;
  c.faults = sim::Faults::none();
  return c;
}

/// How long the job takes, ms.
double jobMs(const sim::JobConfig& config) { return analyzed(config).job_us / 1000; }

TEST(Alike, ASlowerModelIsNobodysFault) {
  sim::JobConfig c = fourRanks();
  c.faults.other_gpus = {{3, 3.0}};
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.kind, VerdictKind::none);
  EXPECT_EQ(a.verdict.rank, trace::kNull);
  EXPECT_EQ(a.verdict.cause, Cause::mixed_devices) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("rank 3 (Simulated T4) sets the pace"), std::string::npos) << a.verdict.text;
  for (const Blame& b : a.blame) EXPECT_FALSE(b.significant) << b.rank << ": " << b.evidence;
}

TEST(Alike, WhatAMixtureCostsIsWhatBalancedWorkSaves) {
  sim::JobConfig c = fourRanks();
  c.faults.other_gpus = {{3, 2.0}};
  const Analysis a = analyzed(c);
  // Half as fast as three others: all are done after 4 / 3.5 of the time of the fast ones, instead of 2.
  sim::JobConfig balanced = c;
  balanced.faults.other_gpus.clear();
  for (int r = 0; r < 4; ++r) balanced.faults.also_slow.emplace_back(r, 4 / 3.5);
  const double saved = 100 * (1 - jobMs(balanced) / (a.job_us / 1000));
  EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 6) << a.verdict.text;
}

TEST(Alike, OneOfTheSlowerModelThatIsSlowIsNamed) {
  sim::JobConfig c = fourRanks();
  c.faults.other_gpus = {{2, 3.0}, {3, 3.0}};
  c.faults.slow_rank = 3;
  c.faults.slowdown = 1.3;
  const Analysis a = analyzed(c);
  ASSERT_FALSE(a.blame.empty());
  EXPECT_EQ(a.blame[0].rank, 3);
  EXPECT_TRUE(a.blame[0].significant);
  EXPECT_NEAR(a.blame[0].slowdown, 1.3, 0.05);
  for (const Blame& b : a.blame) EXPECT_EQ(b.significant, b.rank == 3) << b.rank << ": " << b.evidence;
  const bool said =
      a.verdict.rank == 3 || std::any_of(a.verdict.also.begin(), a.verdict.also.end(),
                                         [](const std::string& s) { return s.starts_with("rank 3 on node0 cost"); });
  EXPECT_TRUE(said) << a.verdict.text;
}

TEST(Alike, TheOnlyOneOfItsModelIsHeldAgainstItsOwnPast) {
  sim::JobConfig c = fourRanks();
  c.faults.other_gpus = {{3, 2.0}};
  c.faults.slow_rank = 3;
  c.faults.slowdown = 1.4;
  c.faults.from_step = 4;
  const Analysis a = analyzed(c);
  ASSERT_FALSE(a.blame.empty());
  EXPECT_EQ(a.blame[0].rank, 3);
  EXPECT_TRUE(a.blame[0].significant);
  EXPECT_EQ(a.blame[0].since_step, 4);
  EXPECT_NEAR(a.blame[0].slowdown, 1.4, 0.05) << a.blame[0].evidence;
}

TEST(Alike, TheOnlyOneOfItsModelIsHeldAgainstWhatWasMeasuredOfIt) {
  sim::JobConfig c = fourRanks();
  c.faults.other_gpus = {{3, 2.0}};
  const Analysis usual = analyzed(c);
  EXPECT_NE(usual.verdict.text.find("the benchmarks of both models explain up to 2.0 ×"), std::string::npos)
      << usual.verdict.text;
  for (const Blame& b : usual.blame) EXPECT_FALSE(b.significant) << b.evidence;
  c.faults.slow_rank = 3;
  c.faults.slowdown = 1.5;
  const Analysis slow = analyzed(c);
  ASSERT_FALSE(slow.blame.empty());
  EXPECT_EQ(slow.blame[0].rank, 3);
  EXPECT_TRUE(slow.blame[0].significant);
  EXPECT_NEAR(slow.blame[0].slowdown, 1.5, 0.1) << slow.blame[0].evidence;
}

TEST(Alike, ASlowRankAmongFastOnesIsNamedBesideASlowerModel) {
  sim::JobConfig c = fourRanks();
  c.ranks = c.gpus_per_node = 6;
  c.events = 6 * 20'000;
  c.faults.other_gpus = {{5, 1.2}};
  c.faults.slow_rank = 1;
  c.faults.slowdown = 1.6;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 1) << a.verdict.text;
}

TEST(Alike, TwoRowsAreComparedWithEachOther) {
  Series s;
  s.rows = {{1, 1.01, 0.99, 1, 1.01, 1}, {1.3, 1.31, 1.29, 1.3, 1.31, 1.3}, {3, 3.03, 2.97, 3, 3, 3}};
  const std::vector<Trend> t = trendsOf(s, true, {0, 0, 1});
  EXPECT_NEAR(t[1].excess, 0.3, 0.01);
  EXPECT_LT(t[0].excess, 0);
  EXPECT_EQ(t[2].excess, 0);  // nobody like it, and it did not change
}

}  // namespace
}  // namespace tracesmith::analysis
