// Which kernel an operation of NCCL gets when the records come in a bad order: with launch calls (exact), and without
// (light mode), where the order of a stream has to do.
#include <gtest/gtest.h>

#include <optional>

#include "capture/collect/collector.hpp"
#include "capture/collect/nccl_join.hpp"
#include "capture/collect/nccl_times.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::capture {
namespace {

constexpr uint64_t kMs = 1'000'000;

/// Times are in ms. A kernel has the number of its operation as correlation.
class NcclOrder : public ::testing::TestWithParam<bool> {
 protected:
  NcclOrder() {
    const ring::RingOptions small{.lane0_records = 256, .lane_records = 256, .lanes = 4, .strings_bytes = 4096};
    ring_ = ring::RingWriter::create((dir_ / "1.ring").c_str(), small, memory_);
    ring_->header().state = ring::State::alive;
    for (uint32_t& lane : lanes_) lane = ring_->addLane(threadOf(&lane - lanes_));
    begin();
  }
  ~NcclOrder() override { ring_->unmap(); }

  static uint32_t threadOf(std::ptrdiff_t which) { return 1000 + static_cast<uint32_t>(which); }
  void launch(uint64_t at, uint32_t thread = 0, uint32_t stream = 7, uint32_t number = 0) {
    ring_->writeLane(
        lanes_[thread],
        encode(ring::LaunchRecord{.start = at * kMs, .end = at * kMs + 100, .stream = stream, .number = number}));
  }
  void operation(uint64_t number, uint64_t at, uint32_t thread = 0, uint64_t comm = 0xa,
                 const char* function = "AllReduce") {
    ring_->writeLane(
        lanes_[thread],
        encode(ring::OperationRecord{
            .function = ring_->intern(function), .start = at * kMs + 200, .comm = comm, .sequence = number}));
  }
  void call(uint64_t number, uint64_t at, uint32_t thread = 0) {
    if (!GetParam()) return;
    ring_->writeGpu(encode(ring::CallRecord{.driver = true,
                                            .name = ring_->intern("cuLaunchKernelEx"),
                                            .start = at * kMs + 10,
                                            .end = at * kMs + 90,
                                            .correlation = static_cast<uint32_t>(number),
                                            .thread = threadOf(thread)}));
  }
  void kernel(uint64_t number, uint64_t at, uint64_t ms = 1, const char* function = "AllReduce", uint32_t stream = 7) {
    ring_->writeGpu(encode(ring::KernelRecord{.name = ring_->intern(("ncclDevKernel_" + std::string(function)).c_str()),
                                              .start = at * kMs,
                                              .end = (at + ms) * kMs,
                                              .stream = stream,
                                              .correlation = static_cast<uint32_t>(number)}));
  }

  void begin() {
    writer_ = std::move(*trace::Writer::create(trace()));
    collector_.emplace(*writer_, "node");
  }
  void follow() {
    if (collector_->follows(dir_ / "1.ring")) return;
    EXPECT_TRUE(collector_->follow(dir_ / "1.ring", true));
  }
  void read() {
    follow();
    EXPECT_TRUE(collector_->drain());
  }
  /// The reader is killed and another goes on with what it left.
  void killed() {
    follow();
    EXPECT_TRUE(collector_->take());
    const std::string state = collector_->state();
    EXPECT_TRUE(collector_->flush());
    collector_->release();
    collector_->leaveAttached();
    collector_.reset();
    EXPECT_TRUE(writer_->close());
    addRows();
    begin();
    collector_->restore(state);
  }
  void addRows() {
    for (const test::Row& r : test::rows(trace(), "collectives")) {
      const std::string operation = r.s("comm").substr(15) + std::to_string(r.i("seq"));
      rows_[operation] = r.i("correlation");
      if (r.s("name") == kTimedByEvents) timed_[operation] = r.i("ts") / static_cast<int64_t>(kMs);
    }
    for (const auto& [cause, count] : test::losses(trace())) losses_[cause] += count;
  }
  /// "communicator and number" → correlation of its kernel.
  std::map<std::string, int64_t> end() {
    read();
    EXPECT_TRUE(collector_->finish());
    EXPECT_TRUE(writer_->close());
    addRows();
    return rows_;
  }
  std::string trace() const { return dir_ / "t.sbt"; }

  test::TempDir dir_;
  alignas(ring::RingWriter) char memory_[sizeof(ring::RingWriter)];
  ring::RingWriter* ring_ = nullptr;
  uint32_t lanes_[2] = {};
  std::unique_ptr<trace::Writer> writer_;
  std::optional<Collector> collector_;
  std::map<std::string, int64_t> rows_;
  std::map<std::string, int64_t> losses_, timed_;  // timed: by events, when it began
};
INSTANTIATE_TEST_SUITE_P(Mode, NcclOrder, ::testing::Bool(),
                         [](const auto& mode) { return mode.param ? "exact" : "light"; });
using Rows = std::map<std::string, int64_t>;
using Losses = std::map<std::string, int64_t>;

TEST_P(NcclOrder, AKernelMayBeReadBeforeItsLaunch) {
  call(0, 10), kernel(0, 11);
  read();
  launch(10), operation(0, 10);
  launch(20), operation(1, 20);
  call(1, 20), kernel(1, 21);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 1}}));
  EXPECT_TRUE(losses_.empty());
}

/// Between windows: the times come before the operations or after them, and a reader may be killed meanwhile.
TEST_P(NcclOrder, TimesByEventsFindTheirOperations) {
  auto time = [&](uint32_t number, uint64_t at) {
    ring_->writeLane(lanes_[1], encode(ring::LaunchTimeRecord{number, at * kMs, (at + 2) * kMs, 500}));
  };
  ring_->writeGpu(encode(ring::GpuOnRecord{.off = true, .start = kMs}));
  time(2, 25);
  launch(10, 0, 7, 1), operation(0, 10), operation(1, 10);
  killed();
  time(1, 15);
  launch(20, 0, 7, 2), operation(2, 20);
  launch(30, 0, 7, 3), operation(3, 30);  // does not end
  launch(40), operation(4, 40);           // not timed
  const Rows rows = end();
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(timed_, (Rows{{"a0", 15}, {"a1", 15}, {"a2", 25}}));
}

/// CUPTI has a buffer for each thread and hands them over in any order.
TEST_P(NcclOrder, TwoThreadsLaunchOnOneStream) {
  for (uint64_t i = 0; i < 6; i += 2) launch(10 + i), operation(i, 10 + i);
  for (uint64_t i = 1; i < 6; i += 2) launch(10 + i, 1), operation(i, 10 + i, 1);
  for (uint64_t i : {1, 3, 5}) call(i, 10 + i, 1), kernel(i, 20 + 2 * i);
  read();
  for (uint64_t i : {0, 2, 4}) kernel(i, 20 + 2 * i), call(i, 10 + i);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 1}, {"a2", 2}, {"a3", 3}, {"a4", 4}, {"a5", 5}}));
  EXPECT_TRUE(losses_.empty());
}

TEST_P(NcclOrder, TwoCommunicatorsShareAStream) {
  for (uint64_t i = 0; i < 4; ++i) launch(10 + i), operation(i / 2, 10 + i, 0, i % 2 ? 0xb : 0xa);
  for (uint64_t i : {2, 3, 0, 1}) kernel(i, 20 + 2 * i), call(i, 10 + i);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"b0", 1}, {"a1", 2}, {"b1", 3}}));
}

TEST_P(NcclOrder, ALostKernelAmongEqualNamesIsALossAndShiftsNothing) {
  for (uint64_t i = 0; i < 8; ++i) {
    launch(10 * i + 10), operation(i, 10 * i + 10), call(i, 10 * i + 10);
    if (i == 3)
      ring_->lose(ring::kBadTime);
    else
      kernel(i, 10 * i + 12);
  }
  EXPECT_EQ(end(),
            (Rows{{"a0", 0}, {"a1", 1}, {"a2", 2}, {"a3", trace::kNull}, {"a4", 4}, {"a5", 5}, {"a6", 6}, {"a7", 7}}));
  EXPECT_EQ(losses_, (Losses{{"bad timestamp", 1}, {kLostKernels, 1}}));
}

TEST_P(NcclOrder, AQueueThatNeverEmptiesIsNotALoss) {
  ring_->lose(ring::kBadTime);  // of some other kernel
  for (uint64_t i = 0; i < 6; ++i) launch(10 + i), operation(i, 10 + i), call(i, 10 + i);
  for (uint64_t i = 0; i < 4; ++i) kernel(i, 12 + i);  // each begins before the next but one is launched
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 1}, {"a2", 2}, {"a3", 3}, {"a4", trace::kNull}, {"a5", trace::kNull}}));
  EXPECT_EQ(losses_, (Losses{{"bad timestamp", 1}})) << "what is in flight is not lost";
}

TEST_P(NcclOrder, OperationsOfAGroupShareTheKernelWheneverTheyAreRead) {
  launch(10), operation(0, 10);
  call(0, 10), kernel(0, 11);
  read();
  operation(1, 10), operation(0, 10, 0, 0xb);
  launch(20), operation(2, 20), call(2, 20), kernel(2, 21);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 0}, {"b0", 0}, {"a2", 2}}));
}

TEST_P(NcclOrder, AKernelWithoutAnOperationIsALoss) {
  kernel(90, 5);  // before anything is known of NCCL
  launch(10), operation(0, 10), call(0, 10), kernel(0, 11);
  kernel(91, 30), call(91, 29);
  EXPECT_EQ(end(), (Rows{{"a0", 0}}));
  EXPECT_EQ(losses_, (Losses{{kLoneKernels, 1}}));
}

TEST_P(NcclOrder, WhatIsLaunchedWhileTheGpuIsNotRecordedIsNotALoss) {
  auto gpu = [&](bool off, uint64_t at) { ring_->writeGpu(encode(ring::GpuOnRecord{.off = off, .start = at * kMs})); };
  gpu(false, 1);
  launch(10), operation(0, 10), call(0, 10);
  gpu(true, 15);
  kernel(0, 20);  // launched before
  launch(30), operation(1, 30);
  read();
  gpu(false, 40);
  launch(50), operation(2, 50), call(2, 50), kernel(2, 51);
  gpu(true, 60);
  launch(70), operation(3, 70);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", trace::kNull}, {"a2", 2}, {"a3", trace::kNull}}));
  EXPECT_TRUE(losses_.empty());
  EXPECT_TRUE(test::rows(trace(), "events", "name", "recording ends, operations in flight").empty())
      << "nothing is known to be in flight";
}

TEST_P(NcclOrder, EveryReplayOfAGraphIsARow) {
  auto capture = [&](uint64_t at, const char* function, uint64_t comm, uint64_t number) {
    const uint64_t ns = at * kMs;
    ring_->writeLane(lanes_[0], encode(ring::LaunchRecord{.start = ns, .end = ns, .stream = 7, .captured = true}));
    ring_->writeLane(lanes_[0], encode(ring::OperationRecord{.function = ring_->intern(function),
                                                             .start = ns,
                                                             .comm = comm,
                                                             .sequence = number,
                                                             .elements = 5,
                                                             .captured = true}));
  };
  auto replay = [&](uint64_t at, const char* function) {
    ring_->writeGpu(encode(ring::KernelRecord{.name = ring_->intern((std::string("ncclDevKernel_") + function).c_str()),
                                              .start = at * kMs,
                                              .end = at * kMs + 100,
                                              .stream = 7,
                                              .correlation = 77,
                                              .graph = 3}));
  };
  capture(10, "AllReduce", 0xa, 0), capture(11, "AllGather", 0xb, 0);
  launch(20), operation(1, 20), call(1, 20);
  killed();
  for (uint64_t at : {30, 40}) replay(at, "AllReduce"), replay(at + 1, "AllGather");
  kernel(1, 50);  // was launched before the graph, and runs after it
  end();
  std::map<std::string, std::vector<int64_t>> seen;
  for (const test::Row& r : test::rows(trace(), "collectives")) {
    if (r.i("correlation") != 77) continue;
    seen[r.s("op") + r.s("comm").substr(15)].push_back(r.i("ts") / static_cast<int64_t>(kMs));
    EXPECT_TRUE(r.null("seq")) << "which replay it is the other ranks do not know";
    EXPECT_TRUE(r.null("ts_enqueue"));
    EXPECT_EQ(r.i("elements"), 5);
  }
  EXPECT_EQ(seen, (std::map<std::string, std::vector<int64_t>>{{"all_reducea", {30, 40}}, {"all_gatherb", {31, 41}}}));
  EXPECT_EQ(rows_["a1"], 1);
  EXPECT_TRUE(losses_.empty());
}

TEST_P(NcclOrder, GraphsThatHideTheirKernelsAreALoss) {
  ring_->writeLane(lanes_[0], encode(ring::LaunchRecord{.start = 1, .end = 2, .stream = 7, .captured = true}));
  ring_->writeLane(lanes_[0],
                   encode(ring::OperationRecord{.function = ring_->intern("AllReduce"), .start = 3, .captured = true}));
  for (uint64_t at : {30, 40}) ring_->writeGpu(encode(ring::GraphRecord{.start = at, .end = at + 1, .graph = 3}));
  EXPECT_TRUE(end().empty());
  EXPECT_EQ(losses_.count(kHiddenReplays), 1u);
}

TEST_P(NcclOrder, FunctionsTellWhereAKernelIsMissing) {
  const char* functions[] = {"AllGather", "ReduceScatter"};
  for (uint64_t i = 0; i < 6; ++i) launch(10 + i), operation(i, 10 + i, 0, 0xa, functions[i % 2]), call(i, 10 + i);
  for (uint64_t i : {5, 4, 3, 1, 0}) kernel(i, 20 + i, 1, functions[i % 2]);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 1}, {"a2", trace::kNull}, {"a3", 3}, {"a4", 4}, {"a5", 5}}));
  EXPECT_EQ(losses_, (Losses{{kLostKernels, 1}}));
}

TEST_P(NcclOrder, NothingIsLostWhenTheReaderIsKilled) {
  call(0, 10), kernel(0, 30);
  killed();
  launch(10), operation(0, 10);
  launch(11, 1), operation(1, 11, 1);
  killed();
  kernel(2, 34);
  killed();
  launch(12), operation(2, 12);
  call(1, 11, 1), kernel(1, 32);
  killed();
  call(2, 12);
  EXPECT_EQ(end(), (Rows{{"a0", 0}, {"a1", 1}, {"a2", 2}}));
  EXPECT_TRUE(losses_.empty());
}

}  // namespace
}  // namespace tracesmith::capture
