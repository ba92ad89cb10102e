// A recording that begins while collectives run.
#include "capture/collect/collector.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::capture {
namespace {

class CollectorTest : public ::testing::Test {
 protected:
  CollectorTest() {
    const ring::RingOptions small{.lane0_records = 8, .lane_records = 64, .lanes = 2, .strings_bytes = 4096};
    ring_ = ring::RingWriter::create((dir_ / "1.ring").c_str(), small, memory_);
    host_ = ring_->addLane(1);
  }
  ~CollectorTest() override { ring_->unmap(); }
  void launch(uint64_t at, uint64_t seq) {
    ring_->writeLane(host_, encode(ring::LaunchRecord{.start = at, .end = at, .stream = 7}));
    ring_->writeLane(host_, encode(ring::OperationRecord{
                                .function = ring_->intern("AllReduce"), .start = at, .comm = 0xabc, .sequence = seq}));
  }
  void kernel(uint64_t start, uint64_t end) {
    ring_->writeGpu(encode(ring::KernelRecord{
        .name = ring_->intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), .start = start, .end = end, .stream = 7}));
  }
  /// "number@start" of each row.
  std::vector<std::string> recorded(uint64_t since) {
    auto writer = std::move(*trace::Writer::create(dir_ / "t.sbt"));
    Collector collector(*writer, "node");
    EXPECT_TRUE(collector.follow(dir_ / "1.ring", false));
    collector.leaveOutBefore(since);
    EXPECT_TRUE(collector.snapshot());
    EXPECT_TRUE(collector.finish());
    EXPECT_TRUE(writer->close());
    std::vector<std::string> out;
    for (const test::Row& r : test::rows(dir_ / "t.sbt", "collectives"))
      out.push_back(std::to_string(r.i("seq")) + "@" + (r.null("ts") ? "-" : std::to_string(r.i("ts"))));
    return out;
  }

  test::TempDir dir_;
  alignas(ring::RingWriter) char memory_[sizeof(ring::RingWriter)];
  ring::RingWriter* ring_ = nullptr;
  uint32_t host_ = 0;
};

TEST_F(CollectorTest, KernelsOfWhatWasLaunchedBeforeAreNotTakenForTheNext) {
  for (uint64_t i = 0; i < 4; ++i) launch(10 + i, i);
  launch(120, 4);
  kernel(20, 50);  // number 0, over before recording begins
  for (uint64_t i = 0; i < 4; ++i) kernel(60 + 50 * i, 100 + 50 * i);
  EXPECT_EQ(recorded(90), (std::vector<std::string>{"1@60", "2@110", "3@160", "4@210"}));
}

TEST_F(CollectorTest, WhatIsOlderThanTheKernelsThatAreLeftIsNotWaitedFor) {
  launch(10, 0);
  kernel(20, 30);
  for (uint64_t i = 1; i < 10; ++i) launch(100 * i, i), kernel(100 * i + 20, 100 * i + 40);  // eight are kept
  EXPECT_EQ(recorded(850), (std::vector<std::string>{"9@920"}));
}

TEST_F(CollectorTest, WhatIsInFlightSaysWhenTheRecordingEnded) {
  launch(100, 0);
  kernel(120, 130);
  launch(200, 1);  // nobody comes, and nothing else happens
  const uint64_t now = rawClock();
  EXPECT_EQ(recorded(0), (std::vector<std::string>{"0@120", "1@-"}));
  const std::vector<test::Row> marks = test::rows(dir_ / "t.sbt", "events", "type", "marker");
  ASSERT_EQ(marks.size(), 1u);
  EXPECT_GE(marks[0].i("ts"), static_cast<int64_t>(now)) << "so that analyze knows how long it was waited for";
}

}  // namespace
}  // namespace tracesmith::capture
