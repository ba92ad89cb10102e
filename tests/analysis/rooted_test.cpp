// Who waits for whom where an operation has a root.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kRanks = 4, kTimes = 20;
constexpr int64_t kEveryNs = 10'000'000, kLateNs = 1'000'000;

/// An operation with root 0 on four ranks, of which one comes late. A rank leaves after 50 µs, or 50 µs after the one
/// `waits_for` says it has to wait for.
Analysis rooted(const char* op, int late, const std::function<bool(int rank)>& waits_for) {
  WrittenTrace trace;
  for (int i = 0; i < kTimes; ++i)
    for (int r = 0; r < kRanks; ++r) {
      const int64_t at = (i + 1) * kEveryNs, late_at = at + kLateNs;
      CollectiveRow c;
      c.ts = r == late ? late_at : at;
      c.dur = (waits_for(r) ? late_at : c.ts) + 50'000 - c.ts;
      c.op = trace.string(op);
      c.comm = trace.string("world");
      c.node = trace.string("n0");
      c.name = trace.string("ncclDevKernel_Generic(x)");
      c.seq = i;
      c.rank = c.group_rank = r;
      c.group_size = kRanks;
      c.peer = 0;
      c.bytes = 1 << 20;
      trace.add(c);
    }
  return trace.analyzed();
}

void expectWait(const Analysis& a, int64_t culprit, double wait_us) {
  ASSERT_EQ(a.collectives.size(), static_cast<size_t>(kTimes));
  EXPECT_EQ(a.inconsistent, 0u);
  for (const CollectiveResult& c : a.collectives) {
    EXPECT_EQ(c.culprit_rank, culprit);
    if (culprit == kNull)
      EXPECT_TRUE(std::isnan(c.wait_us_total)) << c.wait_us_total;
    else
      EXPECT_NEAR(c.wait_us_total, wait_us, 0.001);
  }
}

TEST(Rooted, TheRootOfAGatherWaitsForALateRankAndNobodyElseDoes) {
  for (const char* op : {"gather", "reduce"})
    expectWait(rooted(op, 2, [](int rank) { return rank == 0 || rank == 2; }), 2, kLateNs / 1000);
}

TEST(Rooted, NobodyWaitsForTheRootOfAGather) {
  for (const char* op : {"gather", "reduce"}) expectWait(rooted(op, 0, [](int rank) { return rank == 0; }), kNull, 0);
}

TEST(Rooted, AllWaitForTheRootOfAScatter) {
  for (const char* op : {"scatter", "broadcast"})
    expectWait(rooted(op, 0, [](int) { return true; }), 0, 3 * kLateNs / 1000);
}

TEST(Rooted, NobodyWaitsForALateRankOfAScatter) {
  for (const char* op : {"scatter", "broadcast"})
    expectWait(rooted(op, 2, [](int rank) { return rank == 2; }), kNull, 0);
}

}  // namespace
}  // namespace tracesmith::analysis
