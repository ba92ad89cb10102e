// Which send belongs to which receive.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

constexpr int64_t kStepNs = 10'000'000;
constexpr int kSteps = 20;

/// 0 sends to 1 and 1 to 2, once a step; who receives is there 10 µs before. Rank 1 is recorded since `from`, and
/// stands still in step `until`; the others are recorded for a minute more.
Analysis pipeline(bool by_pair, int from, int until = kSteps) {
  WrittenTrace trace;
  int64_t next[3] = {};  // one count for all on a rank
  auto row = [&](int rank, const char* op, int peer, int step, int64_t ts, int64_t end) {
    CollectiveRow c;
    c.seq = by_pair ? step : next[rank];
    ++next[rank];
    if (rank == 1 && step < from) return;
    c.ts_enqueue = ts - 20'000;
    if (end != kNull) {
      c.ts = ts;
      c.dur = end - ts;
    }
    c.op = trace.string(op);
    c.comm = trace.string("pp");
    c.node = trace.string("node0");
    c.rank = c.group_rank = rank;
    c.group_size = 3;
    c.peer = peer;
    c.bytes = 1 << 20;
    trace.add(c);
  };
  for (int step = 0; step < until; ++step)
    for (int k = 0; k < 2; ++k) {
      const int64_t at = step * kStepNs + k * kStepNs / 2 + 1'000'000, end = at + 50'000;
      row(k, "send", k + 1, step, at, end);
      row(k + 1, "recv", k, step, at - 10'000, end);
    }
  if (until < kSteps) {
    const int64_t at = until * kStepNs;
    row(0, "send", 1, until, at, kNull);
    row(2, "recv", 1, until, at + kStepNs / 2, kNull);
    trace.recordedUntil(at + 60'000'000'000, trace.string("node0"));
  }
  return trace.analyzed();
}

int pairsThatMeet(const Analysis& a) {
  int met = 0;
  for (const CollectiveResult& c : a.collectives) {
    if (c.ranks < 2) continue;
    EXPECT_NEAR(c.skew_start_us, 10, 0.001) << c.group << " " << c.index;
    ++met;
  }
  return met;
}

TEST(Pairs, MeetByTheirNumberWhereRecordingBeganLaterOnOneSide) {
  const Analysis a = pipeline(true, 3);
  EXPECT_EQ(a.incomplete, 6u) << "three that 1 received, three that it sent";
  EXPECT_EQ(pairsThatMeet(a), 2 * (kSteps - 3));
}

TEST(Pairs, AStageThatStandsStillIsNamed) {
  const Analysis a = pipeline(true, 0, 12);
  EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
  EXPECT_EQ(a.verdict.rank, 1);
  EXPECT_NE(
      a.verdict.text.find("rank 1 on node0 never arrived at recv 12 from rank 0 of pp; rank 0 waits in it for 60.0"),
      std::string::npos)
      << a.verdict.text;
}

TEST(Pairs, MeetInTheirOrderWhereTheCommunicatorHasOneCount) {
  const Analysis a = pipeline(false, 0);
  EXPECT_EQ(a.incomplete, 0u);
  EXPECT_EQ(pairsThatMeet(a), 2 * kSteps);
}

/// A microbatch goes round four ranks again and again; from 2 to 3 it takes so long.
Analysis sends(int64_t last_ns) {
  WrittenTrace trace;
  int64_t now = 0;
  for (int step = 0; step < kSteps; ++step)
    for (int from = 0; from < 4; ++from) {
      const int to = (from + 1) % 4;
      const int64_t start = now + 100'000, end = start + (from == 2 ? last_ns : 50'000 + 20'000 * from);
      EventRow work;
      work.ts = now;
      work.dur = 90'000;
      work.type = static_cast<int64_t>(EventType::kernel);
      work.name = trace.string("gemm");
      work.node = trace.string("node0");
      work.rank = from;
      work.device = from;
      work.stream = 7;
      trace.add(work);
      for (int rank : {from, to}) {
        CollectiveRow c;
        c.ts = start;
        c.dur = end - start;
        c.ts_enqueue = start - 20'000;
        c.seq = step;
        c.op = trace.string(rank == from ? "send" : "recv");
        c.comm = trace.string("pp");
        c.node = trace.string("node0");
        c.rank = c.group_rank = rank;
        c.group_size = 4;
        c.peer = rank == from ? to : from;
        c.bytes = 1 << 20;
        trace.add(c);
      }
      now = end;
    }
  return trace.analyzed();
}

TEST(Pairs, ALinkThatTakesTwiceAsLongAsEachOtherIsNamed) {
  const Analysis a = sends(600'000);
  EXPECT_EQ(a.verdict.cause, Cause::slow_link);
  EXPECT_TRUE(a.verdict.text.starts_with("the link from rank 2 to rank 3 on node0 ")) << a.verdict.text;
  ASSERT_FALSE(a.links.empty());
  EXPECT_NEAR(a.links[0].slowdown, 600.0 / 70, 0.01) << "against the median of the others";
}

TEST(Pairs, WhatTheScheduleMakesOfSendsIsNoSlowLink) {
  const Analysis a = sends(200'000);
  EXPECT_NE(a.verdict.cause, Cause::slow_link) << a.verdict.text;
  EXPECT_TRUE(a.links.empty());
}

}  // namespace
}  // namespace tracesmith::analysis
