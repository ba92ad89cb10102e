// A simulated job that runs, seen through the same rings and collector as a real one.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "capture/collect/collector.hpp"
#include "capture/sim/live.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::sim {
namespace {

using namespace tracesmith::trace;
using test::TempDir;

class Live : public ::testing::Test {
 protected:
  Live() {
    config_.job.ranks = 6;
    config_.job.gpus_per_node = 3;
    config_.job.operations = 60;
    config_.speed = 0;
    config_.steps = 5;
    config_.folder = dir_ / "";
    config_.reader = static_cast<uint32_t>(::getpid());
  }

  /// Plays the job and collects it at the same time.
  void play() {
    auto job = LiveJob::create(config_);
    ASSERT_TRUE(job) << job.status().message();
    auto writer = Writer::create(dir_ / "t.sbt");
    ASSERT_TRUE(writer);
    capture::Collector collector(**writer, "here");
    for (const std::string& path : (*job)->ringPaths()) ASSERT_TRUE(collector.follow(path, true));
    std::atomic<bool> stop{false}, done{false};
    std::thread player([&] {
      (*job)->run(stop);
      done = true;
    });
    while (!done) {
      ASSERT_TRUE(collector.drain());
      if ((*job)->hangs() && collector.stats().records == last_) stop = true;  // nothing comes any more
      last_ = collector.stats().records;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    player.join();
    ASSERT_TRUE(collector.drain());
    EXPECT_EQ(collector.alive(), 6u);
    (*job).reset();
    EXPECT_EQ(collector.alive(), 0u);
    ASSERT_TRUE(collector.finish());
    stats_ = collector.stats();
    ASSERT_TRUE((*writer)->close());
    reader_ = std::move(*Reader::open(dir_ / "t.sbt"));
  }

  /// visit(row) with row(column) for every row of a table.
  template <typename R>
  void rows(const std::function<void(const std::function<int64_t(int)>&)>& visit) {
    const TableInfo& table = tableOf<R>();
    std::vector<int> all;
    for (size_t i = 0; i < table.columns.size(); ++i) all.push_back(static_cast<int>(i));
    Scan scan(*reader_, table, {}, all);
    while (scan.next())
      for (uint32_t r : scan.rows())
        visit([&](int c) { return slotAt(scan.column(c), table.columns[static_cast<size_t>(c)].kind, r); });
  }

  TempDir dir_;
  LiveConfig config_;
  capture::CollectorStats stats_;
  std::unique_ptr<Reader> reader_;
  uint64_t last_ = 0;
};

TEST_F(Live, EveryRankIsRecordedWholeAndSaidToBeSimulated) {
  play();
  EXPECT_TRUE(stats_.simulated);
  EXPECT_TRUE(isSimulated(*reader_));
  EXPECT_EQ(stats_.losses, 0u);
  EXPECT_EQ(reader_->rows(tableOf<ProcessRow>()), 6u);
  EXPECT_EQ(reader_->rows(tableOf<NodeRow>()), 2u);
  EXPECT_EQ(reader_->rows(tableOf<DeviceRow>()), 6u);
  EXPECT_EQ(reader_->rows(tableOf<StepRow>()), 30u);
  std::map<std::tuple<int64_t, int64_t, int64_t>, int> launches;
  std::map<int64_t, int> kernels;
  rows<EventRow>([&](auto& row) {
    auto type = static_cast<EventType>(row(events::type));
    std::tuple key(row(events::node), row(events::pid), row(events::correlation));
    if (type == EventType::runtime) ++launches[key];
    if (!isDeviceType(type)) return;
    EXPECT_EQ(launches[key], 1) << "a launch is written before its kernel";
    EXPECT_EQ(row(events::device), row(events::rank) % 3);
    EXPECT_NE(row(events::step), kNull);
    ++kernels[row(events::rank)];
  });
  ASSERT_EQ(kernels.size(), 6u);
  for (auto& [rank, n] : kernels) EXPECT_EQ(n, 5 * 60) << rank;
}

class LiveMeeting : public Live {
 protected:
  void playAndCheck();
};

/// Every operation has its kernel, and those of one collective end together.
void LiveMeeting::playAndCheck() {
  play();
  struct Instance {
    std::set<int64_t> ranks;
    int64_t last_start = INT64_MIN, first_end = INT64_MAX, size = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Instance> instances;
  rows<CollectiveRow>([&](auto& row) {
    ASSERT_NE(row(collectives::ts), kNull) << "joined with its kernel";
    Instance& i = instances[{row(collectives::comm), row(collectives::seq)}];
    EXPECT_TRUE(i.ranks.insert(row(collectives::rank)).second);
    i.last_start = std::max(i.last_start, row(collectives::ts));
    i.first_end = std::min(i.first_end, row(collectives::ts) + row(collectives::dur));
    i.size = row(collectives::group_size);
    EXPECT_LE(row(collectives::ts_enqueue), row(collectives::ts));
  });
  ASSERT_GE(instances.size(), 20u);
  for (auto& [key, i] : instances) {
    EXPECT_EQ(static_cast<int64_t>(i.ranks.size()), i.size);
    EXPECT_GE(i.first_end, i.last_start);
  }
}

TEST_F(LiveMeeting, CollectivesOfAllRanksMeet) { playAndCheck(); }

TEST_F(LiveMeeting, GathersAndScattersOfOneCommunicatorMeet) {
  config_.job.sharded = true;
  playAndCheck();
}

TEST_F(LiveMeeting, KernelsThatAreReadBeforeTheirOperationsFindThem) {
  config_.job.sharded = true;
  config_.host_lag_ms = 100;  // longer than a step: all its kernels come first,
  config_.ring_records = 64;  // and have to be read before there is room for the rest
  playAndCheck();
}

TEST_F(Live, AHangLeavesOneOperationPendingOnAllButOne) {
  config_.job.faults.hang_rank = 4;
  config_.job.faults.hang_step = 3;
  config_.steps = 0;
  play();
  // The first operation without an end, by rank, and how far each rank came.
  std::map<int64_t, int64_t> pending, newest;
  std::map<int64_t, int64_t> world;  // comm of size 6
  rows<CollectiveRow>([&](auto& row) {
    if (row(collectives::group_size) != 6) return;
    const int64_t rank = row(collectives::rank), seq = row(collectives::seq);
    newest[rank] = std::max(newest[rank], seq);
    if (row(collectives::ts) == kNull && (!pending.contains(rank) || seq < pending[rank])) pending[rank] = seq;
  });
  EXPECT_EQ(pending.size(), 5u);
  EXPECT_FALSE(pending.contains(4)) << "it never launched it";
  for (auto& [rank, seq] : pending) EXPECT_EQ(seq, newest[4] + 1) << rank;
  EXPECT_EQ(reader_->rows(tableOf<StepRow>()), 18u) << "three steps of six ranks";
}

TEST_F(Live, TheSameSeedGivesTheSameJobOnSeveralMachines) {
  config_.steps = 2;
  config_.start_ns = 1'000'000'000;
  std::map<int, std::vector<ring::Record>> seen[2];
  for (int split : {0, 1}) {
    for (int part = 0; part < (split ? 2 : 1); ++part) {
      config_.first_rank = part * 3;
      config_.ranks_here = split ? 3 : 6;
      config_.ring_records = 1 << 12;
      config_.keep_rings = true;
      auto job = LiveJob::create(config_);
      ASSERT_TRUE(job);
      (*job)->run(std::atomic<bool>{false});
      for (const std::string& path : (*job)->ringPaths()) {
        auto reader = ring::RingReader::open(path);
        ASSERT_TRUE(reader);
        auto& records = seen[split][(*reader)->header().rank];
        (*reader)->drain([&](uint32_t, const ring::Record& r) {
          if (r.kind == ring::Kind::kernel) records.push_back(r);
        });
        std::filesystem::remove(path);
      }
    }
  }
  ASSERT_EQ(seen[0].size(), 6u);
  for (auto& [rank, records] : seen[0]) {
    ASSERT_EQ(records.size(), seen[1][rank].size());
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].end, seen[1][rank][i].end);
  }
}

TEST(Faults, AreReadAsUsersWriteThem) {
  Faults f = Faults::none();
  EXPECT_TRUE(addFault(f, "slow-gpu=3:1.5"));
  EXPECT_TRUE(addFault(f, "late=2:7.5"));
  EXPECT_TRUE(addFault(f, "hang=1:40"));
  EXPECT_TRUE(addFault(f, "jitter=5"));
  EXPECT_TRUE(addFault(f, "slow-link=1"));
  EXPECT_EQ(f.slow_rank, 3);
  EXPECT_EQ(f.slowdown, 1.5);
  EXPECT_EQ(f.late_ms, 7.5);
  EXPECT_EQ(f.hang_step, 40);
  EXPECT_EQ(f.jitter, 0.05);
  EXPECT_EQ(f.slow_node, 1);
  for (const char* wrong :
       {"", "slow-gpu", "slow-gpu=", "slow-gpu=x", "slow-gpu=1:", "slow-gpu=-1", "fast=1", "jitter=1:2"})
    EXPECT_FALSE(addFault(f, wrong)) << wrong;
  EXPECT_TRUE(addFault(f, "none"));
  EXPECT_EQ(f.slow_rank, Faults::kNone);
}

}  // namespace
}  // namespace tracesmith::sim
