// What an agent tells about a process from its ring.
#include "cluster/agent/live_rings.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "analysis/live/hang.hpp"
#include "base/clock.hpp"
#include "capture/ring/writer.hpp"
#include "support/pid_namespace.hpp"
#include "support/process.hpp"
#include "support/training_ring.hpp"

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

TEST(LiveRings, TellsTheVersionsThatAreKnown) {
  test::TempDir dir;
  alignas(ring::RingWriter) char memory[sizeof(ring::RingWriter)];
  const ring::RingOptions small{.lane0_records = 64, .lane_records = 64, .lanes = 2, .strings_bytes = 4096};
  ring::RingWriter* ring = ring::RingWriter::create((dir / "1.ring").c_str(), small, memory);
  ring->header().state = ring::State::alive;
  ring->header().nccl = ring->intern("2.21.5");
  RingFollower follower(std::move(*ring::RingReader::open(dir / "1.ring")));
  const analysis::live::ProcessReport report = follower.report(rawClock());
  EXPECT_EQ(report.nccl, "2.21.5");
  EXPECT_EQ(report.torch, "");
  ring->unmap();
}

TEST(LiveRings, SaysHowFastAProcessTrainsAsLongAsItDoes) {
  test::TempDir dir;
  test::TrainingRing ring(dir / "1.ring", 3, "trainer");
  RingFollower follower(std::move(*ring::RingReader::open(dir / "1.ring")));
  EXPECT_FALSE(follower.report(rawClock()).samples_per_s);
  ring.step(7);
  ring.counter("samples/s", 100);
  ring.counter("samples/s", 120);
  ring.counter("mfu %", 41.5);
  ring.counter("loss", 2);
  const uint64_t now = rawClock();
  const analysis::live::ProcessReport report = follower.report(now);
  EXPECT_EQ(report.role, "trainer");
  EXPECT_EQ(report.step, 7);
  EXPECT_EQ(report.samples_per_s, 120);
  EXPECT_EQ(report.mfu_percent, 41.5);
  EXPECT_FALSE(report.tokens_per_s);
  EXPECT_FALSE(follower.report(now + 60'000'000'000).samples_per_s);  // none came for long
}

/// Of gloo, as the hooks record it.
void operation(test::TrainingRing& ring, const char* op, uint64_t sequence, int32_t rank, uint64_t start,
               uint64_t end) {
  ring::RingWriter& w = ring.writer();
  ring.write(ring::HostOperationRecord{.op = w.intern(op),
                                       .group = w.intern("gloo default_pg"),
                                       .backend = w.intern("gloo"),
                                       .start = start,
                                       .end = end,
                                       .sequence = sequence,
                                       .bytes = 1024,
                                       .rank = rank,
                                       .ranks = 2});
}

TEST(LiveRings, AJobOfGlooThatHangsIsSeen) {
  test::TempDir dir;
  test::TrainingRing first(dir / "0.ring", 0), second(dir / "1.ring", 1), other(dir / "2.ring", 1);
  for (test::TrainingRing* ring : {&first, &second})
    ring->writer().header().job = ring->writer().intern("node-a:29500");
  other.writer().header().job = other.writer().intern("node-b:29500");  // its groups have the same names
  const uint64_t now = rawClock(), second_ns = 1'000'000'000;
  for (int32_t rank : {0, 1}) operation(rank == 0 ? first : second, "all_reduce", 0, rank, now - 500, 0);
  for (int32_t rank : {0, 1}) operation(rank == 0 ? first : second, "all_reduce", 0, rank, now - 500, now - 400);
  operation(first, "barrier", 1, 0, now - 300, 0);
  operation(other, "barrier", 1, 1, now - 300, 0);
  analysis::live::NodeReport report;
  report.node = "n1";
  std::vector<std::unique_ptr<RingFollower>> followers;
  for (const char* name : {"0.ring", "1.ring", "2.ring"})
    followers.push_back(std::make_unique<RingFollower>(std::move(*ring::RingReader::open(dir / name))));
  analysis::live::HangDetector detector;
  analysis::live::HangVerdict verdict;
  for (uint64_t s = 0; s < 120 && verdict.state != model::HangState::hang; ++s) {
    report.processes.clear();
    for (auto& f : followers) report.processes.push_back(f->report(now + s * second_ns));
    detector.take(report, static_cast<int64_t>(now + s * second_ns));
    verdict = detector.look(static_cast<int64_t>(now + s * second_ns));
  }
  ASSERT_EQ(verdict.state, model::HangState::hang);
  EXPECT_NE(verdict.verdict.find("rank 1"), std::string::npos) << verdict.verdict;
  const auto stuck = std::find_if(verdict.communicators.begin(), verdict.communicators.end(),
                                  [](const model::StuckOp& o) { return o.entered == std::vector<int32_t>{0}; });
  ASSERT_NE(stuck, verdict.communicators.end()) << verdict.verdict;
  EXPECT_EQ(stuck->op, "barrier");
  EXPECT_EQ(stuck->missing, std::vector<int32_t>{1});
  operation(first, "barrier", 1, 0, now - 300, now + 1);
  EXPECT_TRUE(followers[0]->report(now + 200 * second_ns).in_flight.empty());
}

TEST(LiveRings, ARingWithManyCommunicatorsMakesASmallReport) {
  test::TempDir dir;
  alignas(ring::RingWriter) char memory[sizeof(ring::RingWriter)];
  const ring::RingOptions options{.lane0_records = 64, .lane_records = 1 << 17, .lanes = 2, .strings_bytes = 1 << 20};
  ring::RingWriter* ring = ring::RingWriter::create((dir / "1.ring").c_str(), options, memory);
  ring->header().state = ring::State::alive;
  const uint32_t lane = ring->addLane(1);
  const uint32_t name = ring->intern(std::string(4000, 'x').c_str()), function = ring->intern("AllReduce");
  for (uint32_t i = 0; i < 1 << 16; ++i) {
    ring->writeLane(lane, encode(ring::CommRecord{.hash = i, .name = name, .rank = 0, .ranks = 2}));
    ring->writeLane(lane, encode(ring::OperationRecord{.function = function, .start = i, .comm = i, .sequence = 0}));
  }
  ::setenv("TRACESMITH_RING_ROOTS", dir.path().c_str(), 1);  // as root, not the jobs of this machine
  const std::vector<analysis::live::ProcessReport> all = RingWatch(dir.path(), "node").report();
  ::unsetenv("TRACESMITH_RING_ROOTS");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_LE(all[0].comms.size(), 256u);
  EXPECT_LE(all[0].in_flight.size(), 256u);
  EXPECT_GE(all[0].left_out, (1u << 16) - 256);
  ring->unmap();
}

TEST(LiveRings, AJobInAContainerIsToldAndItsRingStaysUntilItEnds) {
  test::TempDir dir;
  const std::string path = dir / "1.ring";
  std::optional<test::NamespacedProcess> job = test::NamespacedProcess::start([&](const auto& ready) {
    ring::RingWriter* ring =
        ring::RingWriter::create(path.c_str(), {.lane0_records = 64, .lane_records = 64, .lanes = 2});
    if (!ring) ::_exit(1);
    ring->header().state = ring::State::alive;
    ready();
  });
  if (!job) GTEST_SKIP() << "no PID namespaces here";
  ring::RingFolders folders(dir.path(), {});
  auto removeForgotten = [&] {
    folders.removeForgotten(1, 0);
    folders.removeForgotten(2, 0);
  };
  removeForgotten();
  EXPECT_TRUE(test::exists(path));
  RingFollower follower(std::move(*ring::RingReader::open(path)));
  (void)follower.report(rawClock());
  const analysis::live::ProcessReport report = follower.report(rawClock());
  EXPECT_EQ(report.state, model::ProcessState::running);
  EXPECT_TRUE(report.cpu_share) << "of the process itself, not of the one that has its number here";
  job->kill();
  EXPECT_EQ(follower.report(rawClock()).state, model::ProcessState::dead);
  removeForgotten();
  EXPECT_FALSE(test::exists(path));
}

}  // namespace
}  // namespace tracesmith::cluster
