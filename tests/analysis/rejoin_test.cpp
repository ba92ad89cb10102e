// Recordings in which operations carry the kernels of others.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kRanks = 4, kTimes = 60;
constexpr int64_t kEveryNs = 10'000'000, kHostAheadNs = 4'000'000, kLateNs = 1'000'000;

/// All-gathers and reduce-scatters in turn, each function with a count of its own as NCCL has it and a stream of its
/// own. Rank 2 is always late. On rank 1 the first all-gather lost its kernel, and all after it have their neighbour's;
/// or nothing is shifted, and all ranks but rank 2 call another one right after the last, which never ends.
Analysis shifted(bool with_launches, bool hangs = false) {
  WrittenTrace trace;
  const char* kernels[] = {"ncclDevKernel_AllGather_RING_LL(x)", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)"};
  for (int r = 0; r < kRanks; ++r)
    for (int i = 0; i < kTimes; ++i) {
      const int f = i % 2;
      auto start = [&](int n) { return (n + 1) * kEveryNs + (r == 2 ? kLateNs : 0); };
      auto end = [&](int n) { return (n + 1) * kEveryNs + kLateNs + 50'000; };
      const int64_t enqueue = start(i) - kHostAheadNs;
      EventRow e;
      e.type = static_cast<int64_t>(EventType::kernel);
      e.ts = start(i);
      e.dur = end(i) - e.ts;
      e.name = trace.string(kernels[f]);
      e.node = trace.string("n0");
      e.rank = r;
      e.device = r;
      e.stream = 20 + f;
      e.correlation = 100 + i;
      trace.add(e);
      if (with_launches) {
        EventRow call;
        call.type = static_cast<int64_t>(EventType::driver);
        call.ts = enqueue - 20'000;
        call.dur = 15'000;
        call.name = trace.string("cuLaunchKernelEx");
        call.node = e.node;
        call.rank = r;
        call.tid = 7;
        call.correlation = e.correlation;
        trace.add(call);
      }
      CollectiveRow c;
      c.ts_enqueue = enqueue;
      c.op = trace.string(f == 0 ? "all_gather" : "reduce_scatter");
      c.comm = trace.string("world");
      c.seq = i / 2;
      c.node = e.node;
      c.rank = c.group_rank = r;
      c.group_size = kRanks;
      c.bytes = 1 << 20;
      const int carried = r == 1 && f == 0 && !hangs ? i + 2 : i;
      if (carried < kTimes) {
        c.ts = start(carried);
        c.dur = end(carried) - c.ts;
        c.correlation = 100 + carried;
        c.stream = 20 + f;
        c.name = e.name;
      }
      trace.add(c);
      if (!hangs || i + 1 < kTimes || r == 2) continue;
      c.ts = c.dur = c.correlation = c.stream = kNull;
      c.ts_enqueue = enqueue + 100'000;
      c.seq = i / 2 + 1;
      trace.add(c);
    }
  if (hangs) trace.recordedUntil(kTimes * kEveryNs + 10'000'000'000, trace.string("n0"));
  return trace.analyzed();
}

void expectRight(const Analysis& a) {
  EXPECT_EQ(a.incomplete, 0u);
  EXPECT_EQ(a.inconsistent, 0u);
  EXPECT_EQ(a.unmatched, 0u);
  ASSERT_EQ(a.collectives.size(), static_cast<size_t>(kTimes));
  for (const CollectiveResult& c : a.collectives) {
    EXPECT_EQ(c.culprit_rank, 2);
    EXPECT_NEAR(c.wait_us_total, 3 * kLateNs / 1000, 0.001);
  }
  ASSERT_FALSE(a.notes.empty());
  EXPECT_NE(a.notes[0].find("30 operations had no kernel or that of another"), std::string::npos) << a.notes[0];
}

TEST(Rejoin, FindsTheKernelsByTheirLaunchCalls) { expectRight(shifted(true)); }

TEST(Rejoin, FindsTheKernelsByTheirOrderWhereNoLaunchCallsAreRecorded) { expectRight(shifted(false)); }

TEST(Rejoin, AnOperationThatNeverEndsTakesNoKernelOfAnother) {
  const Analysis a = shifted(true, true);
  for (const std::string& note : a.notes) EXPECT_EQ(note.find("joined again"), std::string::npos) << note;
  EXPECT_EQ(a.incomplete, 0u);
  EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
  EXPECT_EQ(a.verdict.rank, 2) << a.verdict.text;
}

}  // namespace
}  // namespace tracesmith::analysis
