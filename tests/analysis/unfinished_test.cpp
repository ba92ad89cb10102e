// Rows without times are no hang where what came after them has ended.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using namespace trace;

struct Member {
  int rank, of;
};

/// A rank's part in the all-reduce of that number: they are called every 100 ms after `start`.
void addAllReduce(WrittenTrace& trace, int64_t start, int64_t node, Member member, int seq, bool ended) {
  CollectiveRow c;
  c.ts_enqueue = start + int64_t{seq} * 100'000'000;
  if (ended) {
    c.ts = c.ts_enqueue + 10'000;
    c.dur = 50'000;
  }
  c.op = trace.string("all_reduce");
  c.comm = trace.string("world");
  c.node = node;
  c.rank = c.group_rank = member.rank;
  c.group_size = member.of;
  c.seq = seq;
  trace.add(c);
}

/// Two ranks on nodes whose clocks are hours apart, an all-reduce every 100 ms for 5 s. Of number `first`, which ran
/// when recording began, rank 0 has no row and rank 1 no times; `last` is the number of the last one.
Analysis job(int first, int last) {
  WrittenTrace trace;
  for (int rank = 0; rank < 2; ++rank) {
    const int64_t boot = rank * 9'000'000'000'000;
    const int64_t node = trace.string("node" + std::to_string(rank));
    ClockRow clock;
    clock.node = node;
    clock.ts_from = boot;
    clock.offset_ns = -boot;
    clock.drift_ppm = 0;
    clock.bound_ns = 1000;
    trace.add(clock);
    for (int seq = first; seq <= last; ++seq) {
      if (rank == 0 && seq == first) continue;
      addAllReduce(trace, boot, node, {rank, 2}, seq, seq > first);
    }
    trace.recordedUntil(boot + 10'000'000'000, node);
  }
  return trace.analyzed();
}

TEST(Unfinished, AnOperationThatRanWhenRecordingBeganIsNoHang) { EXPECT_NE(job(13, 63).verdict.cause, Cause::hang); }

TEST(Unfinished, TheLastOneIs) {
  const Analysis a = job(13, 13);
  EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("somebody never arrived at all_reduce 13 of world, or was not recorded"),
            std::string::npos);
  EXPECT_NE(a.verdict.text.find("rank 1 waits in it for 8.700 s"), std::string::npos) << a.verdict.text;
}

/// Four ranks come to an all-reduce every 100 ms; the last one they all launch and nobody leaves, for `waited_ns`.
Analysis stuckTogether(int64_t waited_ns) {
  WrittenTrace trace;
  const int64_t node = trace.string("node0");
  for (int rank = 0; rank < 4; ++rank)
    for (int seq = 0; seq <= 20; ++seq) {
      addAllReduce(trace, 0, node, {rank, 4}, seq, seq < 20);
    }
  trace.recordedUntil(2'000'000'000 + waited_ns, node);
  return trace.analyzed();
}

TEST(Unfinished, WhereAllAreInItNobodyIsNamed) {
  const Analysis a = stuckTogether(7'000'000'000);
  EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
  EXPECT_EQ(a.verdict.rank, kNull);
  EXPECT_NE(a.verdict.text.find("all 4 ranks are in all_reduce 20 of world and nothing has ended for 7.000 s"),
            std::string::npos)
      << a.verdict.text;
  EXPECT_NE(stuckTogether(500'000'000).verdict.cause, Cause::hang) << "it may end yet";
}

/// Two ranks replay a CUDA graph; what ran in it has a name and no times. Of the last ones rank 1 launches `less`
/// fewer. `ends`: the graph was seen to end, but for the last one.
Analysis replays(bool ends, int less) {
  WrittenTrace trace;
  const int64_t node = trace.string("node0");
  for (int rank = 0; rank < 2; ++rank)
    for (int seq = 0; seq <= 20 - rank * less; ++seq) {
      CollectiveRow c;
      c.ts_enqueue = int64_t{seq} * 100'000'000;
      c.name = trace.string("CUDA graph");
      if (ends && seq < 20) c.correlation = seq + 1;
      c.op = trace.string("all_reduce");
      c.comm = trace.string("world");
      c.node = node;
      c.rank = c.group_rank = rank;
      c.group_size = 2;
      c.seq = seq;
      trace.add(c);
    }
  trace.recordedUntil(12'000'000'000, node);
  return trace.analyzed();
}

TEST(Unfinished, WhatRanInAGraphNobodyMeasuredIsNoHang) {
  EXPECT_NE(replays(true, 0).verdict.cause, Cause::hang);
  EXPECT_NE(replays(false, 0).verdict.cause, Cause::hang) << "whether it ended nobody knows";
}

TEST(Unfinished, WhoNeverLaunchedTheGraphIsNamed) {
  for (bool ends : {true, false}) {
    const Analysis a = replays(ends, 1);
    EXPECT_EQ(a.verdict.cause, Cause::hang) << a.verdict.text;
    EXPECT_EQ(a.verdict.rank, 1);
  }
}

}  // namespace
}  // namespace tracesmith::analysis
