// Pipelines with several chunks of the model on every stage (interleaved 1F1B): who waits for whom goes round.
#include <gtest/gtest.h>

#include "analysis/simulated_job.hpp"

namespace tracesmith::analysis {
namespace {

/// Stages with two chunks each. `width`: ranks of a stage.
sim::JobConfig job(int width, uint64_t seed = 77) {
  sim::JobConfig c;
  c.pipeline = 4;
  c.ranks = 4 * width;
  c.gpus_per_node = 4;
  c.stages_only = width == 1;
  c.in_turn = true;
  c.chunks = 2;
  c.microbatches = 8;
  c.events = static_cast<uint64_t>(c.ranks) * 20'000;
  c.seed = seed;
  c.faults = sim::Faults::none();
  return c;
}

/// What the job would save, by simulating it without the fault, %.
double savedPct(sim::JobConfig c, const Analysis& a) {
  c.faults = sim::Faults::none();
  return 100 * (1 - analyzed(c).job_us / a.job_us);
}

TEST(Interleaved, BubblesAreNobodysFault) {
  for (int width : {1, 2})
    for (uint64_t seed : {77, 78}) {
      const Analysis a = analyzed(job(width, seed));
      EXPECT_EQ(a.verdict.kind, VerdictKind::none) << a.verdict.text;
      EXPECT_EQ(a.incomplete, 0u);
      EXPECT_EQ(a.unmatched, 0u);
    }
}

TEST(Interleaved, ASlowStageIsNamedAndCostsWhatItWouldSave) {
  for (int width : {1, 2}) {
    sim::JobConfig c = job(width);
    const int slow = 2 * width;
    c.faults.slow_rank = slow;
    c.faults.slowdown = 1.3;
    const Analysis a = analyzed(c);
    EXPECT_EQ(a.verdict.rank, slow) << a.verdict.text;
    EXPECT_EQ(a.verdict.cause, Cause::clock) << a.verdict.text;
    EXPECT_GE(a.verdict.confidence, 0.7);
    const double saved = savedPct(c, a);
    EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
  }
}

TEST(Interleaved, AStageWithMoreWorkIsNamed) {
  for (int width : {1, 2}) {
    sim::JobConfig c = job(width);
    c.faults.heavy_stage = 1;
    c.faults.heaviness = 1.5;
    const Analysis a = analyzed(c);
    EXPECT_EQ(a.verdict.kind, VerdictKind::rank) << a.verdict.text;
    EXPECT_EQ(a.verdict.cause, width == 1 ? Cause::uneven_work : Cause::slow_stage) << a.verdict.text;
    EXPECT_EQ(a.verdict.rank, width == 1 ? 1 : trace::kNull);
    const double saved = savedPct(c, a);
    EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
  }
}

TEST(Interleaved, ALateHostIsNamed) {
  for (int late : {0, 3}) {
    sim::JobConfig c = job(1);
    c.faults.late_rank = late;
    c.faults.late_ms = 12;
    const Analysis a = analyzed(c);
    EXPECT_EQ(a.verdict.rank, late) << a.verdict.text;
    EXPECT_EQ(a.verdict.cause, Cause::host) << a.verdict.text;
    const double saved = savedPct(c, a);
    EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
  }
}

/// Tensor groups, data-parallel groups and stages that run both passes in turn, at once.
TEST(Interleaved, WithTensorAndDataGroupsOneRankIsNamed) {
  for (int chunks : {1, 2}) {
    sim::JobConfig c = job(4);
    c.tensor = 2;
    c.chunks = chunks;
    EXPECT_EQ(analyzed(c).verdict.kind, VerdictKind::none);
    c.faults.slow_rank = 9;
    c.faults.slowdown = 1.3;
    Analysis a = analyzed(c);
    EXPECT_EQ(a.verdict.rank, 9) << a.verdict.text;
    double saved = savedPct(c, a);
    EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
    c.faults = sim::Faults::none();
    c.faults.late_rank = 6;
    c.faults.late_ms = 4;
    a = analyzed(c);
    EXPECT_EQ(a.verdict.rank, 6) << a.verdict.text;
    saved = savedPct(c, a);
    EXPECT_NEAR(a.verdict.cost_pct, saved, saved / 3) << a.verdict.text;
  }
}

}  // namespace
}  // namespace tracesmith::analysis
