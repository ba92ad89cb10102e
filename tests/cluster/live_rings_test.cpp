// What an agent tells about a process from its ring.
#include "cluster/agent/live_rings.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"

namespace tracesmith::cluster {
namespace {

TEST(LiveRings, BetweenWindowsEventsTellThatAnOperationHasEnded) {
  test::TempDir dir;
  alignas(ring::RingWriter) char memory[sizeof(ring::RingWriter)];
  const ring::RingOptions small{.lane0_records = 64, .lane_records = 64, .lanes = 2, .strings_bytes = 4096};
  ring::RingWriter* ring = ring::RingWriter::create((dir / "1.ring").c_str(), small, memory);
  ring->header().state = ring::State::alive;
  const uint32_t host = ring->addLane(1);
  const uint64_t now = rawClock();
  ring->writeGpu(encode(ring::GpuOnRecord{.off = true, .start = now - 100}));
  for (uint32_t i = 0; i < 3; ++i) {
    ring->writeLane(host, encode(ring::LaunchRecord{.start = now + i, .end = now + i, .stream = 7, .number = i + 1}));
    ring->writeLane(host, encode(ring::OperationRecord{.function = ring->intern("AllReduce"),
                                                       .start = now + i,
                                                       .comm = 0xabc,
                                                       .sequence = i,
                                                       .rank = 0,
                                                       .ranks = 2}));
  }
  RingFollower follower(std::move(*ring::RingReader::open(dir / "1.ring")));
  analysis::live::ProcessReport report = follower.report(now + 1000);
  EXPECT_EQ(report.in_flight.size(), 3u);
  ASSERT_EQ(report.comms.size(), 1u);
  EXPECT_FALSE(report.comms[0].ops.at(0).completed);
  for (uint32_t i = 0; i < 2; ++i)
    ring->writeLane(host, encode(ring::LaunchTimeRecord{i + 1, now + 10 * i, now + 10 * i + 5, 500}));
  report = follower.report(now + 2000);
  ASSERT_EQ(report.in_flight.size(), 1u);
  EXPECT_EQ(report.in_flight[0].seq, 2u);
  EXPECT_EQ(report.comms[0].ops.at(0).completed, 1u);
  ring->unmap();
}

}  // namespace
}  // namespace tracesmith::cluster
