// What NCCL's proxy waited for, from the rings of four ranks to the pair that the analysis names.
#include <gtest/gtest.h>

#include "capture/collect/collector.hpp"
#include "capture/ring/writer.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::capture {
namespace {

constexpr uint64_t kUs = 1000, kMs = 1000 * kUs;
constexpr int kRanks = 4, kSteps = 40;

/// A step every ms with one all-reduce, in which each rank sends 1 MB to the next. Rank 2's takes the network a fifth
/// longer; how long they wait for the GPU and the peer differs, and says nothing about the network.
void writeRing(ring::RingWriter& ring, int rank) {
  ring.header().state = ring::State::ended;
  ring.header().rank = rank;
  ring.header().world_size = kRanks;
  const uint32_t lane = ring.addLane(1000 + rank), proxy = ring.addLane(2000 + rank);
  ring.writeLane(lane,
                 encode(ring::CommRecord{.hash = 0xa, .start = 1, .rank = rank, .ranks = kRanks, .nodes = kRanks}));
  for (uint64_t i = 0; i < kSteps; ++i) {
    const uint64_t at = (10 + i) * kMs;
    ring.writeLane(lane, encode(ring::LaunchRecord{.start = at, .end = at + 100, .stream = 7}));
    ring.writeLane(lane, encode(ring::OperationRecord{.function = ring.intern("AllReduce"),
                                                      .start = at + 200,
                                                      .comm = 0xa,
                                                      .sequence = i,
                                                      .elements = 1 << 20,
                                                      .rank = rank,
                                                      .ranks = kRanks}));
    ring.writeGpu(encode(ring::KernelRecord{.name = ring.intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
                                            .start = at + 20 * kUs,
                                            .end = at + 900 * kUs,
                                            .stream = 7,
                                            .correlation = static_cast<uint32_t>(i + 1)}));
    const auto r = static_cast<uint64_t>(rank);
    const uint64_t gpu = (i * 7 + r) % 5 * 50 * kUs, peer = (i * 3 + r) % 4 * 30 * kUs;
    const uint64_t net = (rank == 2 ? 60 : 50) * kUs + (i * 13 + r * 7) % 900;
    ring.writeLane(proxy, encode(ring::ProxyRecord{.comm = 0xa,
                                                   .start = at + 30 * kUs,
                                                   .end = at + 30 * kUs + gpu + peer + net,
                                                   .send = true,
                                                   .peer = (rank + 1) % kRanks,
                                                   .steps = 4,
                                                   .bytes = 1 << 20,
                                                   .net_wait = net,
                                                   .peer_wait = peer,
                                                   .gpu_wait = gpu}));
  }
}

TEST(ProxyRing, TheSlowPairIsNamedByWhatTheProxyWaitedFor) {
  test::TempDir dir;
  const ring::RingOptions small{.lane0_records = 256, .lane_records = 256, .lanes = 4, .strings_bytes = 4096};
  auto writer = std::move(*trace::Writer::create(dir / "t.sbt"));
  Collector collector(*writer, "node");
  for (int rank = 0; rank < kRanks; ++rank) {
    alignas(ring::RingWriter) char memory[sizeof(ring::RingWriter)];
    const std::string path = dir / (std::to_string(rank) + ".ring");
    ring::RingWriter* ring = ring::RingWriter::create(path.c_str(), small, memory);
    ASSERT_TRUE(ring);
    writeRing(*ring, rank);
    ASSERT_TRUE(collector.follow(path, false));
    ASSERT_TRUE(collector.drain());
    ring->unmap();
  }
  ASSERT_TRUE(collector.finish());
  ASSERT_TRUE(writer->close());

  const std::vector<test::Row> sends = test::rows(dir / "t.sbt", "proxy_ops");
  ASSERT_EQ(sends.size(), static_cast<size_t>(kRanks * kSteps));
  for (const test::Row& s : sends) {
    EXPECT_EQ(s.i("gpu_wait") + s.i("peer_wait") + s.i("net_wait"), s.i("dur"));
    EXPECT_EQ(s.i("bytes"), 1 << 20);
  }
  const test::Output o = test::tracesmith({"analyze", "--json", dir / "t.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const size_t link = o.out.find("\"2→3\"");
  ASSERT_NE(link, std::string::npos) << o.out;
  EXPECT_NE(o.out.find("sends take 1.2"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace tracesmith::capture
