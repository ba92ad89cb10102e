// What the job would gain, and what that is measured against.
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kRanks = 4, kSteps = 20;
constexpr int64_t kStepNs = 10'000'000;

/// Four ranks that meet in every step, and a fifth on its own whose steps last `longer` times as long: the
/// replay knows nothing of it and ends with the others. `slow`: one of the four computes so many times as long.
Analysis job(double longer, double slow = 1) {
  WrittenTrace trace;
  auto kernel = [&](int rank, int64_t ts, int64_t dur, int step) {
    EventRow e;
    e.type = static_cast<int64_t>(EventType::kernel);
    e.ts = ts;
    e.dur = dur;
    e.name = trace.string("gemm");
    e.node = trace.string("n0");
    e.rank = e.device = rank;
    e.stream = 7;
    e.step = step;
    trace.add(e);
    StepRow s;
    s.ts = step * (rank == kRanks ? static_cast<int64_t>(longer * kStepNs) : kStepNs);
    s.dur = rank == kRanks ? static_cast<int64_t>(longer * kStepNs) : kStepNs;
    s.node = e.node;
    s.rank = rank;
    s.step = step;
    trace.add(s);
  };
  for (int step = 0; step < kSteps; ++step) {
    for (int r = 0; r < kRanks; ++r) {
      const auto computes = static_cast<int64_t>(r == 1 ? 6e6 * slow : 6e6);
      kernel(r, step * kStepNs, computes, step);
      CollectiveRow c;
      c.ts = step * kStepNs + computes + 10'000;
      c.dur = step * kStepNs + static_cast<int64_t>(6e6 * slow) + 1'010'000 - c.ts;
      c.op = trace.string("all_reduce");
      c.comm = trace.string("world");
      c.name = trace.string("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)");
      c.node = trace.string("n0");
      c.algo = trace.string("ring");
      c.seq = c.step = step;
      c.rank = c.group_rank = r;
      c.group_size = kRanks;
      c.bytes = 1 << 20;
      trace.add(c);
    }
    kernel(kRanks, step * static_cast<int64_t>(longer * kStepNs), 6'000'000, step);
  }
  return trace.analyzed();
}

TEST(WhatIf, IsAChangeOfTheJobNotOfItsReplay) {
  const Analysis a = job(1.03);
  ASSERT_TRUE(a.critical_path);
  EXPECT_NEAR(a.critical_path->replay_error_pct, -2.9, 0.2);
  ASSERT_FALSE(a.critical_path->what_if.empty());
  for (const WhatIf& w : a.critical_path->what_if) {
    EXPECT_NEAR(w.job_us + w.saved_us, a.duration_us, 1) << w.what;
    EXPECT_NEAR(w.saved_us, a.duration_us * w.saved_pct / 100, 1) << w.what;
  }
  EXPECT_GT(a.critical_path->what_if.back().saved_us, 10'000) << "all communication hidden: a tenth";
}

TEST(WhatIf, IsNotSaidWhereTheReplayIsFarFromTheJob) {
  const Analysis a = job(1.2);
  ASSERT_TRUE(a.critical_path);
  EXPECT_NEAR(a.critical_path->replay_error_pct, -16.7, 0.5);
  EXPECT_TRUE(a.critical_path->what_if.empty());
}

/// Nor does it say what a rank costs: that is not known.
TEST(WhatIf, ACostIsNotKnownWhereTheReplayIsFarFromTheJob) {
  for (double longer : {1.0, 1.2}) {
    const Analysis a = job(longer, 1.2);
    EXPECT_EQ(a.verdict.rank, 1) << a.verdict.text;
    ASSERT_FALSE(a.blame.empty());
    EXPECT_EQ(a.blame[0].rank, 1);
    EXPECT_EQ(std::isnan(a.blame[0].saved_pct), longer > 1.05) << a.blame[0].saved_pct;
    EXPECT_EQ(std::isnan(a.verdict.cost_pct), longer > 1.05);
    EXPECT_EQ(a.verdict.text.find("at an unknown cost") != std::string::npos, longer > 1.05) << a.verdict.text;
  }
}

}  // namespace
}  // namespace tracesmith::analysis
