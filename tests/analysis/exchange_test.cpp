// All-to-alls that run as sends and receives in one kernel.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int kRanks = 4, kTimes = 20;
constexpr int64_t kEveryNs = 10'000'000, kLateNs = 1'000'000;

/// Each rank sends to every rank, itself too, and receives from it; an all-reduce of the same communicator in between
/// has the same numbers. Rank 3 is late for the exchanges.
TEST(Exchange, IsOneOperationOfTheGroup) {
  WrittenTrace trace;
  auto row = [&](int rank, const char* op, int64_t seq, int64_t ts, int64_t end, int64_t correlation) {
    CollectiveRow c;
    c.ts = ts;
    c.dur = end - ts;
    c.ts_enqueue = ts - 100'000;
    c.op = trace.string(op);
    c.comm = trace.string("world");
    c.node = trace.string("n0");
    c.seq = seq;
    c.rank = c.group_rank = rank;
    c.group_size = kRanks;
    c.stream = 20;
    c.correlation = correlation;
    c.bytes = 1000;
    return c;
  };
  for (int i = 0; i < kTimes; ++i)
    for (int r = 0; r < kRanks; ++r) {
      const int64_t at = (i + 1) * kEveryNs, late = at + kLateNs;
      for (int peer = 0; peer < kRanks; ++peer)
        for (const char* op : {"send", "recv"}) {
          CollectiveRow c = row(r, op, i, r == 3 ? late : at, late + 50'000, 2 * i);
          c.peer = peer;
          trace.add(c);
        }
      trace.add(row(r, "all_reduce", i, late + 100'000, late + 200'000, 2 * i + 1));
    }
  const Analysis a = trace.analyzed();
  EXPECT_EQ(a.incomplete, 0u);
  EXPECT_EQ(a.unmatched, 0u);
  ASSERT_EQ(a.collectives.size(), static_cast<size_t>(2 * kTimes));
  int exchanges = 0;
  for (const CollectiveResult& c : a.collectives) {
    if (c.op != "all_to_all") continue;
    ++exchanges;
    EXPECT_EQ(c.bytes, 4000);
    EXPECT_EQ(c.culprit_rank, 3);
    EXPECT_NEAR(c.wait_us_total, 3 * kLateNs / 1000, 0.001);
  }
  EXPECT_EQ(exchanges, kTimes);
}

}  // namespace
}  // namespace tracesmith::analysis
