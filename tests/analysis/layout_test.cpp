// Jobs with pipelines and tensor groups, several faults at once, checkpoints: as files, as their rings would give them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "analysis/simulated_job.hpp"

namespace tracesmith::analysis {
namespace {

sim::JobConfig job(int pipeline, int tensor) {
  sim::JobConfig c;
  c.ranks = 16;
  c.gpus_per_node = 4;
  c.pipeline = pipeline;
  c.tensor = tensor;
  c.events = 16 * 20'000;
  c.seed = 77;
  c.faults = sim::Faults::none();
  return c;
}

std::set<int64_t> found(const Analysis& a) {
  std::set<int64_t> ranks;
  for (const Blame& b : a.blame)
    if (b.significant) ranks.insert(b.rank);
  return ranks;
}

TEST(Layout, AStageThatWaitsInARecvIsNotGuilty) {
  const Analysis a = analyzed(job(4, 2));
  EXPECT_EQ(a.verdict.kind, VerdictKind::none) << a.verdict.text;
  EXPECT_EQ(a.incomplete, 0u);
  EXPECT_EQ(a.unmatched, 0u);
  std::set<std::string> groups;
  for (const CollectiveResult& c : a.collectives) groups.insert(c.group.substr(0, 2));
  EXPECT_EQ(groups, (std::set<std::string>{"wo", "tp", "dp", "pp"}));
}

TEST(Layout, TheSlowRankOfAStageIsNamed) {
  sim::JobConfig c = job(4, 2);
  c.faults.slow_rank = 9;
  c.faults.slowdown = 1.1;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 9) << a.verdict.text;
  EXPECT_GT(a.verdict.confidence, 0.9);
  EXPECT_EQ(a.blame.at(0).rank, 9);
  EXPECT_EQ(found(a), (std::set<int64_t>{9}));
}

TEST(Layout, ThePeerOfASendIsAPlaceInItsCommunicator) {
  const Analysis a = analyzed(job(4, 2));
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (const MatrixCell& m : a.matrix)
    if (m.bytes > 0) pairs.insert({m.from, m.to});
  // Four ranks a stage: a microbatch goes from 1 to 5, its gradients come back.
  EXPECT_TRUE(pairs.contains({1, 5}));
  EXPECT_TRUE(pairs.contains({5, 1}));
  EXPECT_FALSE(pairs.contains({1, 6}));
}

TEST(Layout, TwoSlowRanksAreBothNamedTheLargerFirst) {
  for (int pipeline : {1, 4}) {
    sim::JobConfig c = job(pipeline, 0);
    c.faults.slow_rank = 3;
    c.faults.slowdown = 1.1;
    c.faults.also_slow = {{12, 1.5}};
    const Analysis a = analyzed(c);
    EXPECT_EQ(a.verdict.rank, 12) << a.verdict.text;
    EXPECT_EQ(found(a), (std::set<int64_t>{3, 12}));
    ASSERT_EQ(a.verdict.also.size(), 1u);
    EXPECT_EQ(a.verdict.also[0].find("rank 3 on node0"), 0u) << a.verdict.also[0];
  }
}

TEST(Layout, ASlowRankAndASlowLinkAreBothNamed) {
  sim::JobConfig c = job(2, 2);
  c.faults.slow_rank = 3;
  c.faults.slowdown = 1.2;
  c.faults.slow_node = 2;
  c.faults.link_slowdown = 4;
  const Analysis a = analyzed(c);
  EXPECT_EQ(found(a), (std::set<int64_t>{3}));
  std::set<std::string> nodes;
  for (const LinkResult& l : a.links)
    if (l.significant) nodes.insert(l.nodes.begin(), l.nodes.end());
  EXPECT_EQ(nodes, (std::set<std::string>{"node2"}));
  EXPECT_EQ(a.verdict.also.size(), 1u);
}

TEST(Layout, ALinkThatCostsNothingIsNotNamedBesideTheRank) {
  sim::JobConfig c = job(1, 0);
  c.faults.slow_rank = 3;
  c.faults.slowdown = 1.3;
  c.faults.slow_node = 2;
  c.faults.link_slowdown = 1.1;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 3) << a.verdict.text;
  const auto link = std::find_if(a.links.begin(), a.links.end(), [](const LinkResult& l) { return l.significant; });
  ASSERT_NE(link, a.links.end()) << "it is found";
  EXPECT_LT(link->saved_pct, 0.1);
  EXPECT_TRUE(a.verdict.also.empty()) << a.verdict.also[0];
}

TEST(Layout, ACheckpointByRank0IsNoFaultOfItsGpu) {
  sim::JobConfig c = job(1, 0);
  c.faults.checkpoint_every = 3;
  c.faults.checkpoint_ms = 100;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 0) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::checkpoint);
  EXPECT_NE(a.verdict.text.find("every 3 steps"), std::string::npos) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("in the other steps it is as fast as its peers"), std::string::npos);
  EXPECT_EQ(found(a), (std::set<int64_t>{0}));
}

TEST(Layout, OnePauseIsNotSure) {
  sim::JobConfig c = job(1, 0);
  c.faults.checkpoint_every = 5;
  c.faults.checkpoint_ms = 100;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 0) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::checkpoint) << a.verdict.text;
  EXPECT_LT(a.verdict.confidence, 0.7);
}

TEST(Layout, GroupsThatDoNotFitAreRefused) {
  sim::JobConfig c = job(3, 0);
  EXPECT_FALSE(sim::checkLayout(c));
  EXPECT_FALSE(sim::synthesize(c, "/dev/null", 1));
  c = job(4, 8);
  EXPECT_FALSE(sim::checkLayout(c)) << "a tensor group on more than one node";
  EXPECT_TRUE(sim::checkLayout(job(4, 4)));
}

TEST(Layout, AStageWithMoreWorkIsNamedAsAWhole) {
  sim::JobConfig c = job(4, 2);
  c.faults.heavy_stage = 2;
  c.faults.heaviness = 1.4;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.cause, Cause::slow_stage) << a.verdict.text;
  EXPECT_EQ(a.verdict.rank, trace::kNull);
  EXPECT_EQ(found(a), (std::set<int64_t>{8, 9, 10, 11}));
  EXPECT_NE(a.verdict.text.find("the pipeline stage of ranks 8 to 11"), std::string::npos) << a.verdict.text;
  c.faults.heavy_stage = sim::Faults::kNone;
  const double saved = 100 * (1 - analyzed(c).job_us / a.job_us);
  EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
}

TEST(Layout, ARankIsComparedWithThoseOfItsStage) {
  sim::JobConfig c = job(4, 2);
  c.faults.heavy_stage = 2;
  c.faults.heaviness = 1.4;
  c.faults.slow_rank = 1;
  c.faults.slowdown = 1.8;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 1) << a.verdict.text;
  EXPECT_NEAR(a.blame[0].slowdown, 1.8, 0.1);
}

TEST(Layout, AStageWhoseGpusAreAllSlowIsNamedAsAWhole) {
  sim::JobConfig c = job(4, 2);
  for (int r = 4; r < 8; ++r) c.faults.also_slow.emplace_back(r, 1.3);
  const Analysis a = analyzed(c);
  EXPECT_NE(a.verdict.text.find("the pipeline stage of ranks 4 to 7 cost the job"), std::string::npos)
      << a.verdict.text;
  const double saved = 100 * (1 - analyzed(job(4, 2)).job_us / a.job_us);
  EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
}

TEST(Layout, MoreWorkInOnePassCostsWhatThatPassTakesLonger) {
  sim::JobConfig c = job(4, 0);
  c.ranks = c.gpus_per_node = 4;
  c.events = 4 * 20'000;
  c.stages_only = true;
  c.faults.heavy_stage = 2;
  c.faults.heaviness = 3;
  c.faults.heavy_forward = true;
  const Analysis a = analyzed(c);
  EXPECT_EQ(a.verdict.rank, 2) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::uneven_work);
  c.faults = sim::Faults::none();
  const double saved = 100 * (1 - analyzed(c).job_us / a.job_us);
  EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 20) << a.verdict.text;
}

}  // namespace
}  // namespace tracesmith::analysis
