// What one GPU alone loses most time with.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kSteps = 6, kKernels = 20;

/// Steps of 20 kernels each, of `kernel_us`, and as much between them as `gap_us` and `pause_us` (before each step)
/// say.
struct OneGpu {
  double kernel_us = 10, gap_us = 0, pause_us = 0;
  const char* pause = nullptr;  ///< a range of the host over the pause
  bool copies = false;          ///< the pause is a copy

  Analysis analyzed() const {
    WrittenTrace trace;
    int64_t now = 1'000'000, id = 0;
    auto event = [&](EventType type, const std::string& name, double us, bool device) {
      EventRow e;
      e.ts = now;
      e.dur = static_cast<int64_t>(us * 1000);
      e.type = static_cast<int64_t>(type);
      e.name = trace.string(name);
      e.rank = 0;
      if (device) {
        e.stream = 7;
        e.correlation = ++id;
      }
      trace.add(e);
    };
    auto wait = [&](double us) { now += static_cast<int64_t>(us * 1000); };
    for (int step = 0; step < kSteps; ++step) {
      StepRow s;
      s.ts = now;
      s.rank = 0;
      s.step = step;
      if (pause) event(EventType::annotation, pause, pause_us, false);
      if (copies) event(EventType::memcpy, "Memcpy HtoD (Pageable -> Device)", pause_us, true);
      wait(pause_us);
      for (int k = 0; k < kKernels; ++k) {
        event(EventType::kernel, k % 4 == 0 ? "gemm" : "add" + std::to_string(k % 4), kernel_us, true);
        wait(kernel_us + gap_us);
      }
      s.dur = now - s.ts;
      trace.add(s);
    }
    return trace.analyzed();
  }
};

TEST(OwnLoss, AGpuThatComputesAllTheTimeIsBusy) {
  const Analysis a = OneGpu{.kernel_us = 100, .gap_us = 1}.analyzed();
  EXPECT_EQ(a.verdict.text,
            "the GPU computes for 99 % of the time; the largest kernel takes 25 % of the time of all kernels");
  EXPECT_EQ(a.verdict.cause, Cause::busy);
  ASSERT_EQ(a.kernels.size(), 4u);
  EXPECT_EQ(a.kernels[0].name, "gemm");
  EXPECT_EQ(a.kernels[0].count, 5u * kSteps);
  EXPECT_DOUBLE_EQ(a.kernels[0].mean_us, 100);
  EXPECT_DOUBLE_EQ(a.kernels[0].share_pct, 25);
  EXPECT_DOUBLE_EQ(a.job_us, kSteps * kKernels * 101);
}

TEST(OwnLoss, ShortGapsBetweenShortKernelsAreLaunchBound) {
  const Analysis a = OneGpu{.kernel_us = 6, .gap_us = 6}.analyzed();
  EXPECT_EQ(a.verdict.text,
            "the GPU is idle for 50 % of the time: launch-bound (kernels of 6.0 µs, launched every 12.0 µs)");
  EXPECT_EQ(a.verdict.cause, Cause::launch_bound);
  EXPECT_NE(a.verdict.next.find("CUDA graphs"), std::string::npos);
  EXPECT_DOUBLE_EQ(a.verdict.cost_pct, 50);
}

TEST(OwnLoss, ADataLoaderIsNamedWhereTheHostWaitsForIt) {
  const Analysis a =
      OneGpu{.kernel_us = 480, .pause_us = 10'400, .pause = "enumerate(DataLoader)#_MultiProcessing"}.analyzed();
  EXPECT_EQ(a.verdict.text, "52 % of the time the GPU waits for the data loader");
  EXPECT_EQ(a.verdict.cause, Cause::data_loading);
}

TEST(OwnLoss, LongPausesAreTheHosts) {
  const Analysis a = OneGpu{.kernel_us = 500, .pause_us = 10'000}.analyzed();
  EXPECT_EQ(a.verdict.text,
            "the GPU is idle for 50 % of the time: its host launches nothing in 5 pauses of 10.00 ms on average");
  EXPECT_EQ(a.verdict.cause, Cause::host);
}

TEST(OwnLoss, CopiesWithNothingBesideAreNamed) {
  const Analysis a = OneGpu{.kernel_us = 500, .pause_us = 10'000, .copies = true}.analyzed();
  EXPECT_EQ(a.verdict.text, "the GPU only copies for 50 % of the time");
  EXPECT_EQ(a.verdict.cause, Cause::copies);
}

/// One process that trains on its CPU, as the hooks of Python record it: ten steps of 10 ms, each with `data_ms` of
/// waiting for data. From `unrecorded` on, steps have no phases.
Analysis trainedOnACpu(int64_t data_ms, int unrecorded = 10) {
  constexpr int64_t kMs = 1'000'000;
  WrittenTrace trace;
  auto range = [&](const char* name, int64_t ts, int64_t dur) {
    EventRow e;
    e.ts = ts;
    e.dur = dur;
    e.type = static_cast<int64_t>(EventType::annotation);
    e.name = trace.string(name);
    e.tid = 1;
    trace.add(e);
  };
  for (int step = 0; step < 10; ++step) {
    StepRow s;
    s.ts = step * 10 * kMs;
    s.dur = 10 * kMs;
    s.step = step;
    trace.add(s);
    if (step >= unrecorded) continue;
    const int64_t forward = s.ts + data_ms * kMs;
    range("data", s.ts, data_ms * kMs);
    range("forward", forward, 3 * kMs);
    range("backward", forward + 3 * kMs, kMs);
    range("optimizer", forward + 4 * kMs, kMs);
  }
  if (unrecorded < 10) {
    MetadataRow off;
    off.key = trace.string("tracesmith: hooks off");
    off.value = trace.text("phases are not recorded");
    trace.add(off);
  }
  return trace.analyzed();
}

TEST(OwnLoss, OneProcessOnACpuHasStepsAndPhases) {
  const Analysis a = trainedOnACpu(1);
  EXPECT_EQ(a.ranks, 1);
  EXPECT_EQ(a.steps.size(), 10u);
  ASSERT_EQ(a.breakdown.size(), 10u);
  EXPECT_DOUBLE_EQ(a.breakdown[0].forward_us, 3000);
  EXPECT_DOUBLE_EQ(a.breakdown[0].data_us, 1000);
  EXPECT_EQ(a.verdict.text,
            "only one rank: nothing to compare it with: the host computes for 50 % of the time, only communicates for "
            "0.0 %, waits for data for 10 %, is idle for 40 %");
}

TEST(OwnLoss, ADataLoaderIsNamedOnACpuToo) {
  const Analysis a = trainedOnACpu(5);
  EXPECT_EQ(a.verdict.text, "50 % of the time the host waits for the data loader");
  EXPECT_EQ(a.verdict.cause, Cause::data_loading);
}

TEST(OwnLoss, StepsWhosePhasesWereNotRecordedAreNotIdle) {
  const Analysis a = trainedOnACpu(1, 4);
  EXPECT_EQ(a.steps.size(), 10u);
  EXPECT_EQ(a.breakdown.size(), 4u);
  EXPECT_EQ(std::count(a.notes.begin(), a.notes.end(), "phases are not recorded"), 1);
  EXPECT_NE(a.verdict.text.find("is idle for 40 %"), std::string::npos) << a.verdict.text;
}

/// Operators and launches of a host, marked as one step; the kernels are missing.
Analysis cutShort(const char* call) {
  WrittenTrace trace;
  auto event = [&](EventType type, const char* name, int64_t ts, int64_t correlation) {
    EventRow e;
    e.ts = ts;
    e.dur = 1000;
    e.type = static_cast<int64_t>(type);
    e.name = trace.string(name);
    e.rank = 0;
    e.tid = 1;
    e.correlation = correlation;
    trace.add(e);
  };
  for (int64_t i = 0; i < 100; ++i) {
    event(EventType::cpu_op, "aten::mm", 10'000 * i, kNull);
    event(EventType::runtime, call, 10'000 * i, i);
  }
  StepRow s;
  s.ts = 0;
  s.dur = 1'000'000;
  s.rank = 0;
  s.step = 0;
  trace.add(s);
  return trace.analyzed();
}

TEST(OwnLoss, ATraceWithoutTheKernelsItsHostLaunchedIsNotOneOfAHostAlone) {
  const Analysis a = cutShort("cudaLaunchKernel");
  EXPECT_EQ(a.verdict.kind, VerdictKind::unknown);
  EXPECT_EQ(a.verdict.text,
            "no kernels in this trace, though its hosts launched some: it was cut short, or the GPU was not recorded");
  EXPECT_TRUE(a.breakdown.empty());
  EXPECT_EQ(a.ranks, 1);
  EXPECT_EQ(a.steps.size(), 1u);
}

TEST(OwnLoss, AHostThatOnlyAsksForDevicesComputesItself) {
  const Analysis a = cutShort("cudaGetDeviceCount");
  ASSERT_EQ(a.breakdown.size(), 1u);
  EXPECT_GT(a.breakdown[0].compute_us, 0);
  EXPECT_NE(a.verdict.text.find("the host computes for 10 %"), std::string::npos) << a.verdict.text;
}

}  // namespace
}  // namespace tracesmith::analysis
