// Stretches in which the GPU was not recorded are no idleness.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"
#include "model/coverage.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

TEST(Coverage, OnlyWhatWasRecordedCounts) {
  constexpr int64_t kMs = 1'000'000;
  constexpr int kSteps = 40;
  WrittenTrace trace;
  const int64_t node = trace.string("node0");
  auto row = [&](EventType type, const std::string& name, int64_t ts, int64_t dur) {
    EventRow e;
    e.type = static_cast<int64_t>(type);
    e.name = trace.string(name);
    e.ts = ts;
    e.dur = dur;
    e.node = node;
    e.rank = 0;
    return e;
  };
  // The GPU computes for 9 of the 10 ms of each step, and is recorded in steps 10, 11, 30 and 31.
  trace.add(row(EventType::marker, std::string(model::kGpuOff), 0, kNull));
  for (int s = 0; s < kSteps; ++s) {
    StepRow step;
    step.step = s;
    step.ts = s * 10 * kMs;
    step.dur = 10 * kMs;
    step.node = node;
    step.rank = 0;
    trace.add(step);
    if (s % 20 == 10) trace.add(row(EventType::marker, std::string(model::kGpuOn), step.ts, kNull));
    if (s % 20 == 12) trace.add(row(EventType::marker, std::string(model::kGpuOff), step.ts, kNull));
    if (s % 20 != 10 && s % 20 != 11) continue;
    EventRow kernel = row(EventType::kernel, "gemm", step.ts, 9 * kMs);
    kernel.device = 0;
    kernel.stream = 7;
    trace.add(kernel);
  }
  const Analysis a = trace.analyzed();
  EXPECT_EQ(a.steps.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(a.breakdown.size(), 4u) << "of the other steps nobody knows";
  for (const Breakdown& b : a.breakdown) {
    EXPECT_NEAR(b.compute_us, 9000, 1);
    EXPECT_NEAR(b.idle_us, 1000, 1);
  }
  bool told = false;
  for (const std::string& n : a.notes) told |= n.find("not recorded all the time") != std::string::npos;
  EXPECT_TRUE(told);
  // HTA's tables: from the first kernel to the last there are 39 ms of recorded time.
  ASSERT_EQ(a.hta.temporal.size(), 1u);
  EXPECT_EQ(a.hta.temporal[0].compute_us, 36'000);
  EXPECT_EQ(a.hta.temporal[0].idle_us, 3'000);
  EXPECT_EQ(a.hta.temporal[0].kernel_time_us, 39'000);
  ASSERT_EQ(a.hta.idle.size(), 1u);
  EXPECT_EQ(a.hta.idle[0].host_wait_us + a.hta.idle[0].kernel_wait_us + a.hta.idle[0].other_us, 3'000);
}

}  // namespace
}  // namespace tracesmith::analysis
