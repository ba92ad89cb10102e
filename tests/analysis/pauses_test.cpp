// A rank whose host stops now and then while the others wait: what it does then.
#include <gtest/gtest.h>

#include "analysis/written_trace.hpp"

namespace tracesmith::analysis {
namespace {

using trace::EventType;

constexpr int kRanks = 4, kSteps = 40;
constexpr int64_t kMs = 1'000'000;

/// Steps of 10 ms, marked: a kernel on every rank, then an all_reduce. Every 8 steps rank 0 stops for 20 ms.
class Stops {
 public:
  Stops() : node_(t_.string("n0")), comm_(t_.string("world")), op_(t_.string("all_reduce")) {}

  /// Every 10 steps all ranks evaluate for 50 ms, between two steps.
  Analysis evaluate() {
    int64_t now = 0;
    for (int step = 0; step < kSteps; ++step, now += 10 * kMs)
      for (int rank = 0; rank < kRanks; ++rank) {
        kernel(rank, "gemm", now, now + 8 * kMs);
        reduce(rank, step, now + 8 * kMs, now + 9 * kMs);
        mark(rank, step, now, now + 10 * kMs);
        if (step % 10 != 9) continue;
        event(rank, EventType::annotation, "evaluation", now + 10 * kMs, now + 60 * kMs);
        if (rank == kRanks - 1) now += 50 * kMs;
      }
    return t_.analyzed();
  }

  /// Every rank waits for its GPU in a line of the program, for 2 ms of each step.
  Analysis stall() {
    for (int step = 0; step < kSteps; ++step)
      for (int rank = 0; rank < kRanks; ++rank) {
        const int64_t now = step * 10 * kMs;
        kernel(rank, "gemm", now, now + 8 * kMs);
        event(rank, EventType::annotation, "stall: Tensor.item at train.py:42", now + 4 * kMs, now + 6 * kMs, step);
        event(rank, EventType::annotation, "stall: Tensor.cpu at log.py:7", now + 7 * kMs, now + 7 * kMs + 1000, step);
        reduce(rank, step, now + 8 * kMs, now + 9 * kMs);
        mark(rank, step, now, now + 10 * kMs);
      }
    return t_.analyzed();
  }

  /// `copies`: ns that it copies to the host meanwhile; `range`: what it calls it.
  Analysis run(int64_t copies, const char* range) {
    int64_t now = 0;
    for (int step = 0; step < kSteps; ++step) {
      const bool stops = step % 8 == 5;
      const int64_t pause = stops ? 20 * kMs : 0, end = now + 10 * kMs + pause;
      for (int rank = 0; rank < kRanks; ++rank) {
        kernel(rank, "gemm", now, now + 4 * kMs);
        int64_t arrives = now + 5 * kMs;
        if (stops && rank == 0) {
          if (copies > 0) event(rank, EventType::memcpy, "Memcpy DtoH (Device -> Pageable)", arrives, arrives + copies);
          if (range) event(rank, EventType::annotation, range, arrives, arrives + pause);
          arrives += pause;
        }
        kernel(rank, "gemm", arrives, arrives + kMs);
        reduce(rank, step, arrives + kMs, end - kMs);
        mark(rank, step, now, end);
      }
      now = end;
    }
    return t_.analyzed();
  }

 private:
  void event(int rank, EventType type, const char* name, int64_t from, int64_t to, int64_t step = trace::kNull) {
    trace::EventRow e;
    e.step = step;
    e.ts = from;
    e.dur = to - from;
    e.type = static_cast<int64_t>(type);
    e.name = t_.string(name);
    e.node = node_;
    e.rank = rank;
    if (trace::isDeviceType(type)) {
      e.device = rank;
      e.stream = 7;
      e.correlation = ++correlation_;
      trace::EventRow call;
      call.ts = from - 5000;
      call.dur = 4000;
      call.type = static_cast<int64_t>(EventType::runtime);
      call.name = t_.string("cudaLaunchKernel");
      call.node = node_;
      call.rank = rank;
      call.tid = 1;
      call.correlation = correlation_;
      t_.add(call);
    }
    t_.add(e);
  }
  void kernel(int rank, const char* name, int64_t from, int64_t to) { event(rank, EventType::kernel, name, from, to); }
  void reduce(int rank, int step, int64_t from, int64_t to) {
    kernel(rank, "ncclDevKernel_AllReduce", from, to);
    trace::CollectiveRow c;
    c.ts = from;
    c.dur = to - from;
    c.node = node_;
    c.rank = rank;
    c.op = op_;
    c.comm = comm_;
    c.seq = step;
    c.group_size = kRanks;
    c.bytes = 1 << 20;
    c.correlation = correlation_;
    t_.add(c);
  }
  void mark(int rank, int step, int64_t from, int64_t to) {
    trace::StepRow s;
    s.ts = from;
    s.dur = to - from;
    s.node = node_;
    s.rank = rank;
    s.step = step;
    t_.add(s);
  }

  WrittenTrace t_;
  int64_t node_, comm_, op_, correlation_ = 0;
};

TEST(Pauses, ACheckpointCopiesToTheHost) {
  const Analysis a = Stops().run(2 * kMs, nullptr);
  EXPECT_EQ(a.verdict.rank, 0) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::checkpoint) << a.verdict.text;
}

TEST(Pauses, OneThatCopiesNothingIsNoCheckpoint) {
  const Analysis a = Stops().run(0, nullptr);
  EXPECT_EQ(a.verdict.rank, 0) << a.verdict.text;
  EXPECT_EQ(a.verdict.cause, Cause::host) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("every 8 steps"), std::string::npos) << a.verdict.text;
  EXPECT_NE(a.verdict.text.find("perhaps for garbage collection"), std::string::npos) << a.verdict.text;
}

TEST(Pauses, ARangeSaysWhatItIs) {
  EXPECT_EQ(Stops().run(0, "Python GC").verdict.cause, Cause::garbage_collection);
  EXPECT_EQ(Stops().run(0, "save_checkpoint").verdict.cause, Cause::checkpoint);
}

TEST(Pauses, ALineThatWaitsForTheGpuIsNoted) {
  const Analysis a = Stops().stall();
  std::vector<std::string> stalls;
  for (const std::string& note : a.notes)
    if (note.find("wait for the GPU") != note.npos) stalls.push_back(note);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_TRUE(
      stalls[0].starts_with("hosts wait for the GPU in Tensor.item at train.py:42: 160 times, 20.0 % of the steps"))
      << stalls[0];
}

TEST(Pauses, AnEvaluationBetweenStepsIsInNone) {
  const Analysis a = Stops().evaluate();
  ASSERT_FALSE(a.breakdown.empty());
  for (const Breakdown& b : a.breakdown) EXPECT_NEAR(b.idle_us, 1000, 100) << b.rank;
}

}  // namespace
}  // namespace tracesmith::analysis
