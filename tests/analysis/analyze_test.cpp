// Who made everybody wait: jobs whose truth is known, and traces that do not say enough.
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/clocks/clock_refine.hpp"
#include "analysis/rows/trends.hpp"
#include "model/communication.hpp"
#include "support/process.hpp"
#include "support/small_job.hpp"
#include "trace/clocks.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

using test::SmallJob;
using trace::kNull;

Analysis analyzed(const SmallJob& job, const AnalyzeOptions& options = {}) {
  test::TempDir dir;
  test::writeSmallJob(dir / "t.sbt", job);
  auto reader = trace::Reader::open(dir / "t.sbt");
  EXPECT_TRUE(reader);
  auto result = analyze(**reader, options);
  EXPECT_TRUE(result) << result.status().message();
  return std::move(*result);
}

bool says(const Analysis& a, const std::string& part) {
  for (const std::string& s : a.unknowns)
    if (s.find(part) != s.npos) return true;
  return false;
}

TEST(Analyze, NamesTheSlowRankAndWhatItCosts) {
  SmallJob job;
  job.slow[5] = 1.2;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.kind, VerdictKind::rank);
  EXPECT_EQ(a.verdict.rank, 5) << a.verdict.text;
  EXPECT_EQ(a.verdict.node, "node1");
  EXPECT_EQ(a.verdict.cause, Cause::compute);
  EXPECT_GT(a.verdict.confidence, 0.9);
  // 20 kernels of 50 µs, a fifth longer on one rank: 200 µs of a step of about 1,330.
  EXPECT_NEAR(a.verdict.cost_pct, 15, 2);
  ASSERT_EQ(a.collectives.size(), 20u);
  for (const CollectiveResult& c : a.collectives) {
    EXPECT_EQ(c.culprit_rank, 5);
    EXPECT_NEAR(c.wait_us_total, 7 * 200, 150);
    EXPECT_NEAR(c.transfer_us, 100, 2);
    EXPECT_NEAR(c.algbw_gbps, (1 << 20) / 100e3, 0.3);
    EXPECT_NEAR(c.busbw_gbps, c.algbw_gbps * 2 * 7 / 8, 1e-6);
    EXPECT_NEAR(c.skew_end_us, 0, 0.001);
  }
  EXPECT_EQ(a.blame.at(0).rank, 5);
  EXPECT_EQ(a.blame.at(0).collectives, 20u);
  ASSERT_TRUE(a.critical_path);
  EXPECT_EQ(a.critical_path->ranks.at(0).rank, 5);
  EXPECT_NEAR(a.critical_path->replay_error_pct, 0, 0.5);
}

TEST(Analyze, SaysSinceWhen) {
  SmallJob job;
  job.slow[2] = 1.15;
  job.slow_from = 12;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 2) << a.verdict.text;
  EXPECT_EQ(a.blame.at(0).since_step, 12);
  EXPECT_NEAR(a.blame.at(0).slowdown, 1.15, 0.01);
}

TEST(Analyze, ARankWithKernelsOfItsOwnIsComparedByItsWork) {
  // As seen with MPS: cuBLAS chooses other grids for a rank with fewer multiprocessors.
  SmallJob job;
  job.own_shape = {5};
  EXPECT_EQ(analyzed(job).verdict.kind, VerdictKind::none);
  job.slow[5] = 3;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 5) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::uneven_work);
  EXPECT_NEAR(a.blame.at(0).slowdown, 3, 0.05);
  EXPECT_EQ(a.blame.at(0).since_step, kNull) << a.blame.at(0).evidence;
  EXPECT_GT(a.verdict.confidence, 0.9);
}

TEST(Analyze, AJobThatHangsWhenTheRecordingEndsIsSaidFirst) {
  SmallJob job;
  job.slow[2] = 1.2;
  job.never_comes = 6;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
  EXPECT_EQ(a.verdict.rank, 6);
  EXPECT_EQ(a.verdict.node, "node1");
  EXPECT_NE(
      a.verdict.text.find("never arrived at all_reduce 20 of world; ranks 0, 1, 2, 3, 4, 5, 7 wait in it for 10.000 s"),
      std::string::npos)
      << a.verdict.text;
  ASSERT_FALSE(a.verdict.also.empty()) << "the slow rank is not forgotten";
  EXPECT_NE(a.verdict.also[0].find("rank 2"), std::string::npos);
}

TEST(Analyze, ALateHostIsNotASlowGpu) {
  SmallJob job;
  job.late_ns[3] = 150'000;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 3) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::host);
}

TEST(Analyze, AHealthyJobBlamesNobody) {
  const Analysis a = analyzed({});
  EXPECT_EQ(a.verdict.kind, VerdictKind::none) << a.verdict.text;
  for (const Blame& b : a.blame) EXPECT_LE(b.confidence, 0.3);
}

TEST(Analyze, BreakdownAddsUpToTheStep) {
  const Analysis a = analyzed({});
  ASSERT_EQ(a.breakdown.size(), 8u * 20u);
  ASSERT_EQ(a.steps.size(), 20u);
  double sum = 0, steps = 0;
  for (const Breakdown& b : a.breakdown) {
    sum += b.compute_us + b.data_us + b.exposed_comm_us + b.idle_us;
    EXPECT_TRUE(std::isnan(b.forward_us)) << "nothing names the phases";
    EXPECT_GT(b.exposed_comm_us, 99);
  }
  for (const StepResult& s : a.steps) steps += s.duration_us * s.ranks;
  EXPECT_NEAR(sum, steps, 1);
}

TEST(Analyze, UsesTheClocksOfTheTrace) {
  SmallJob job;
  job.clock_ns[1] = 3'000'000'000;
  job.slow[6] = 1.1;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 6);
  EXPECT_EQ(a.inconsistent, 0u);
  ASSERT_EQ(a.clocks.size(), 2u);
  EXPECT_EQ(a.clocks[1].offset_ns, -3'000'000'000);
  EXPECT_EQ(a.clocks[1].method, "exchange");
  EXPECT_LT(a.collectives.at(3).skew_start_us, 1000);
}

TEST(Analyze, StoresWhatCollectivesTellOfTheClocks) {
  test::TempDir dir;
  SmallJob job;
  job.clock_ns[1] = 3'000'000'000;
  job.clock_error_ns = 150'000;
  job.clock_bound_ns = 200'000;
  job.transfer_ns = 20'000;
  test::writeSmallJob(dir / "t.sbt", job);
  auto reference = [&] {
    auto reader = trace::Reader::open(dir / "t.sbt");
    EXPECT_TRUE(reader && (*reader)->closed() && (*reader)->damage().empty());
    auto clocks = trace::readClocks(**reader);
    EXPECT_TRUE(clocks);
    return (*clocks)["node1"].toReference(4'000'000'000) - (*clocks)["node0"].toReference(1'000'000'000);
  };
  EXPECT_EQ(reference(), 150'000) << "wrong by what the exchange was";
  const Result<Refinement> stored = storeRefinedClocks(dir / "t.sbt");
  ASSERT_TRUE(stored);
  EXPECT_TRUE(stored->used);
  EXPECT_LT(std::abs(reference()), 5000);
  EXPECT_LT(stored->bound_after_ns, 60'000);
  EXPECT_FALSE(storeRefinedClocks(dir / "t.sbt")->used) << "once is enough";
}

TEST(Analyze, FindsClocksFromCollectivesWhereTheTraceHasNone) {
  SmallJob job;
  job.clock_ns[1] = -777'000'000;
  job.clock_rows = false;
  job.slow[6] = 1.1;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 6);
  ASSERT_EQ(a.clocks.size(), 2u);
  EXPECT_NEAR(static_cast<double>(a.clocks[1].offset_ns), 777'000'000, 5000);
  EXPECT_EQ(a.clocks[1].method, "collectives");
  EXPECT_TRUE(says(a, "clocks of 2 of 2")) << "and it says so";
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.culprit_rank, 6);
}

TEST(Analyze, DoesNotBelieveClocksThatCannotBe) {
  SmallJob job;
  job.clock_error_ns = 50'000'000;
  job.slow[1] = 1.1;
  const Analysis a = analyzed(job);
  EXPECT_TRUE(says(a, "contradict the collectives"));
  EXPECT_EQ(a.verdict.rank, 1) << a.verdict.text;
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.culprit_rank, 1);
}

TEST(Analyze, WithoutCollectivesAndCommonClockNobodyWaited) {
  SmallJob job;
  job.collectives = false;
  job.clock_rows = false;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.kind, VerdictKind::none);
  EXPECT_TRUE(says(a, "no collectives"));
  EXPECT_FALSE(a.critical_path);
  EXPECT_TRUE(a.collectives.empty());
}

TEST(Analyze, OneRankHasNobodyToCompareWith) {
  SmallJob job;
  for (int r = 1; r < 8; ++r) job.left_out.insert(r);
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.kind, VerdictKind::none);
  EXPECT_EQ(a.verdict.rank, kNull);
  EXPECT_TRUE(says(a, "1 of 8 ranks"));
  for (const CollectiveResult& c : a.collectives) {
    EXPECT_EQ(c.culprit_rank, kNull);
    EXPECT_TRUE(std::isnan(c.transfer_us));
  }
}

TEST(Analyze, AMissingRankIsNotReplacedByAnother) {
  SmallJob job;
  job.slow[4] = 1.3;
  job.left_out = {4};
  const Analysis a = analyzed(job);
  EXPECT_NE(a.verdict.kind, VerdictKind::rank) << a.verdict.text;
  EXPECT_TRUE(says(a, "7 of 8 ranks"));
  EXPECT_EQ(a.incomplete, 20u);
  for (const Blame& b : a.blame) EXPECT_LE(b.confidence, 0.3);
}

TEST(Analyze, WithoutStepsTheTraceIsCutByItsCollectives) {
  SmallJob job;
  job.step_rows = false;
  job.slow[5] = 1.4;
  job.kernels = 1;  // does not tell a step from a layer
  const Analysis a = analyzed(job);
  EXPECT_TRUE(a.steps.empty());
  EXPECT_TRUE(says(a, "no training steps"));
  EXPECT_EQ(a.breakdown.size(), 8u * 10u);
  EXPECT_EQ(a.verdict.rank, 5) << a.verdict.text;
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.culprit_rank, 5);
}

TEST(Analyze, WithoutStepsTheyAreFoundByTheirKernels) {
  SmallJob job;
  job.step_rows = false;
  job.slow[5] = 1.4;
  const Analysis a = analyzed(job);
  ASSERT_GE(a.steps.size() + 1, 20u);  // the first may belong to the start-up
  for (const StepResult& s : a.steps) EXPECT_EQ(s.ranks, 8);
  EXPECT_EQ(a.verdict.rank, 5) << a.verdict.text;
  ASSERT_EQ(a.notes.size(), 1u);
  EXPECT_NE(a.notes[0].find("by kernels that repeat"), std::string::npos) << a.notes[0];
}

TEST(Analyze, WithoutStepsAndCollectivesTheTraceIsOneStep) {
  SmallJob job;
  job.step_rows = job.collectives = false;
  job.kernels = 1;
  const Analysis a = analyzed(job);
  EXPECT_TRUE(says(a, "no training steps"));
  ASSERT_EQ(a.breakdown.size(), 8u);
  EXPECT_EQ(a.breakdown[0].step, kNull);
  EXPECT_EQ(a.verdict.rank, kNull);
}

TEST(Analyze, LossesLowerTheConfidenceAndAreShown) {
  SmallJob job;
  job.slow[1] = 1.2;
  const double whole = analyzed(job).verdict.confidence;
  job.lost = 1000;
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 1);
  EXPECT_LT(a.verdict.confidence, whole);
  ASSERT_EQ(a.losses.size(), 1u);
  EXPECT_EQ(a.losses[0].cause, "ring full");
  EXPECT_TRUE(says(a, "1000 records were lost"));
}

TEST(Analyze, MatchesByOrderWhereThereIsNoSequence) {
  SmallJob job;
  job.sequence = false;
  job.slow[7] = 1.2;
  const Analysis a = analyzed(job);
  ASSERT_EQ(a.collectives.size(), 20u);
  for (const CollectiveResult& c : a.collectives) {
    EXPECT_EQ(c.ranks, 8);
    EXPECT_EQ(c.culprit_rank, 7);
  }
}

TEST(Analyze, ASequenceThatBeginsAnewIsAnotherCollective) {
  SmallJob job;
  job.restart = true;
  job.slow[7] = 1.2;
  const Analysis a = analyzed(job);
  ASSERT_EQ(a.collectives.size(), 20u);
  EXPECT_EQ(a.inconsistent + a.unmatched, 0u);
  for (const CollectiveResult& c : a.collectives) EXPECT_EQ(c.culprit_rank, 7);
}

TEST(Analyze, KernelsOfOtherLibrariesAreCommunicationToo) {
  SmallJob job;
  job.table = false;
  job.slow[7] = 1.2;
  job.kernel_name = "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)";
  Analysis a = analyzed(job);
  ASSERT_EQ(a.collectives.size(), 20u);
  EXPECT_EQ(a.collectives[0].op, "all_reduce");
  EXPECT_EQ(a.collectives[0].culprit_rank, 7);
  EXPECT_EQ(a.collectives[0].bytes, kNull) << "nobody said how many";
  EXPECT_GT(a.breakdown[0].exposed_comm_us, 99);

  job.kernel_name = "my_own_exchange_kernel";
  a = analyzed(job);
  ASSERT_EQ(a.collectives.size(), 20u) << "no rule says so, but it ends together on all ranks";
  EXPECT_EQ(a.collectives[0].group, "by behaviour: my_own_exchange_kernel");
  test::TempDir dir;
  test::writeFile(dir / "rules", "# mine\n*own_exchange* mine all_reduce\n");
  AnalyzeOptions options;
  options.comm_rules = dir / "rules";
  a = analyzed(job, options);
  ASSERT_EQ(a.collectives.size(), 20u);
  EXPECT_EQ(a.collectives[0].op, "all_reduce");
  EXPECT_EQ(a.collectives[0].culprit_rank, 7);
  test::writeFile(dir / "rules", "*own_exchange* none\n");
  EXPECT_TRUE(analyzed(job, options).collectives.empty()) << "whoever knows better has the last word";
}

TEST(Analyze, TelemetryTellsWhy) {
  SmallJob job;
  job.slow[5] = 1.3;
  job.more = [](test::JobWriter& w) {
    for (int node = 0; node < 2; ++node)
      for (int device = 0; device < 4; ++device)
        for (int i = 0; i < 10; ++i) {
          const bool slow = node == 1 && device == 1;
          w.metric(node, device, "gpu_sm_clock_mhz", i * 1'000'000, slow ? 1500 : 1980);
          w.metric(node, device, "gpu_throttle_power", i * 1'000'000, slow ? 1 : 0);
        }
  };
  const Analysis a = analyzed(job);
  EXPECT_EQ(a.verdict.rank, 5);
  EXPECT_EQ(a.verdict.cause, Cause::throttled);
  EXPECT_NE(a.verdict.text.find("throttled because of power"), std::string::npos) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("SM clock 1500 MHz, others 1980"), std::string::npos) << a.verdict.text;

  job.more = [tell = job.more](test::JobWriter& w) {
    tell(w);
    for (int node = 0; node < 2; ++node) w.device(node, 0);
  };
  const Analysis shared = analyzed(job);
  EXPECT_EQ(shared.verdict.rank, 5);
  EXPECT_EQ(shared.verdict.cause, Cause::compute) << "the state of a GPU that ranks share tells none of them apart";
}

TEST(CommRules, FirstMatchCountsAndBadLinesAreNamed) {
  model::CommRules rules;
  ASSERT_TRUE(rules.match("void deep_ep::intranode::dispatch<8>(int*)"));
  EXPECT_EQ(rules.match("void deep_ep::intranode::dispatch<8>(int*)")->library, "deepep");
  ASSERT_TRUE(rules.match("ncclDevKernel_AllGather_RING_LL"));
  EXPECT_EQ(rules.match("ncclDevKernel_AllGather_RING_LL")->op, "all_gather");
  EXPECT_FALSE(rules.match("void gemm<float>()"));
  EXPECT_FALSE(rules.match("void at::native::step::kernel"));
  test::TempDir dir;
  test::writeFile(dir / "bad", "*x* y\nonly_a_pattern\n");
  Status s = rules.addFile(dir / "bad");
  EXPECT_NE(s.message().find("line 2"), std::string::npos) << s.message();
  test::writeFile(dir / "good", "ncclDevKernel_AllGather* none\n");
  ASSERT_TRUE(rules.addFile(dir / "good"));
  EXPECT_FALSE(rules.match("ncclDevKernel_AllGather_RING_LL"));
  EXPECT_FALSE(rules.addFile(dir / "nowhere"));
}

TEST(Trends, FindTheStepItChanged) {
  Series s;
  for (int r = 0; r < 8; ++r) {
    s.rows.emplace_back();
    for (int c = 0; c < 40; ++c)
      s.rows.back().push_back(1 + 0.002 * ((r * 7 + c * 13) % 5) + (r == 3 && c >= 25 ? 0.06 : 0));
  }
  const std::vector<Trend> t = trendsOf(s, true);
  EXPECT_TRUE(t[3].changed);
  EXPECT_EQ(t[3].since, 25u);
  EXPECT_NEAR(t[3].excess, 0.06, 0.01);
  for (int r = 0; r < 8; ++r)
    if (r != 3) {
      EXPECT_LT(t[static_cast<size_t>(r)].excess, 0.01);
    }
}

}  // namespace
}  // namespace tracesmith::analysis
