// The simulated job is consistent: what later analyses find in it is really there.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "capture/sim/rows.hpp"
#include "support/process.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::sim {
namespace {

using namespace tracesmith::trace;
using test::readFile;
using test::TempDir;

TEST(Synth, SameSeedSameBytesWhateverTheThreads) {
  TempDir dir;
  JobConfig config{.events = 50000, .ranks = 16, .seed = 7};
  ASSERT_TRUE(synthesize(config, dir / "a.sbt", 1));
  ASSERT_TRUE(synthesize(config, dir / "b.sbt", 3));
  EXPECT_TRUE(readFile(dir / "a.sbt") == readFile(dir / "b.sbt"));
  config.seed = 8;
  ASSERT_TRUE(synthesize(config, dir / "c.sbt", 1));
  EXPECT_FALSE(readFile(dir / "a.sbt") == readFile(dir / "c.sbt"));
}

TEST(Synth, GivesExactlyTheEventsAskedFor) {
  TempDir dir;
  for (uint64_t events : {1ull, 100ull, 12345ull, 100000ull})
    for (int ranks : {1, 3, 16}) {
      ASSERT_TRUE(synthesize({.events = events, .ranks = ranks}, dir / "t.sbt", 2));
      auto reader = Reader::open(dir / "t.sbt");
      ASSERT_TRUE(reader);
      EXPECT_EQ((*reader)->rows(tableOf<EventRow>()), events) << ranks;
      EXPECT_TRUE((*reader)->closed());
    }
}

class Sample : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(synthesize(config_, dir_ / "t.sbt", 2));
    reader_ = std::move(*Reader::open(dir_ / "t.sbt"));
  }
  TempDir dir_;
  JobConfig config_{.events = 300000, .ranks = 16, .seed = 3};
  Job job_{config_};
  std::unique_ptr<Reader> reader_;
};

TEST_F(Sample, CollectivesEndTogetherAndNotBeforeTheLastArrival) {
  struct Instance {
    double first_end = 1e30, last_end = 0, last_start = 0;
    int64_t culprit = 0;
    int ranks = 0, size = 0;
    int64_t step = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Instance> instances;  // (comm, seq)
  Scan scan(*reader_, tableOf<CollectiveRow>(), {},
            {collectives::ts, collectives::ts_end, collectives::comm, collectives::seq, collectives::rank,
             collectives::step, collectives::group_size});
  while (scan.next()) {
    auto value = [&](int c, uint32_t r) {
      return slotAt(scan.column(c), tableOf<CollectiveRow>().columns[static_cast<size_t>(c)].kind, r);
    };
    for (uint32_t r : scan.rows()) {
      int64_t rank = value(collectives::rank, r);
      const ClockTruth& clock = job_.clock(job_.nodeOf(static_cast<int>(rank)));
      auto reference = [&](int64_t raw) {
        return static_cast<double>(raw - clock.raw_start) * (1 + clock.drift_ppm * 1e-6);
      };
      Instance& i = instances[{value(collectives::comm, r), value(collectives::seq, r)}];
      double start = reference(value(collectives::ts, r)), end = reference(value(collectives::ts_end, r));
      i.first_end = std::min(i.first_end, end);
      i.last_end = std::max(i.last_end, end);
      if (start > i.last_start) {
        i.last_start = start;
        i.culprit = rank;
      }
      i.size = static_cast<int>(value(collectives::group_size, r));
      i.step = value(collectives::step, r);
      ++i.ranks;
    }
  }
  ASSERT_GT(instances.size(), 100u);
  int late = 0, late_by_slow_rank = 0;
  for (const auto& [key, i] : instances) {
    if (i.ranks < i.size) continue;  // the trace ends inside the last step
    EXPECT_EQ(i.ranks, i.size);
    EXPECT_GE(i.first_end, i.last_start - 2) << "a rank ended before the last arrived";
    EXPECT_LE(i.last_end - i.first_end, 4002);
    if (i.size == config_.ranks && i.step > job_.slowFromStep()) {
      ++late;
      late_by_slow_rank += i.culprit == job_.slowRank();
    }
  }
  EXPECT_GT(late_by_slow_rank, late / 3) << "the slow rank stands out";
}

TEST_F(Sample, EveryDeviceRowHasItsLaunch) {
  std::map<std::pair<int64_t, int64_t>, int> launches, kernels;
  Scan scan(*reader_, tableOf<EventRow>(), {}, {events::type, events::rank, events::correlation, events::ts});
  while (scan.next())
    for (uint32_t r : scan.rows()) {
      auto type = static_cast<EventType>(scan.column(events::type).data<uint8_t>()[r]);
      int64_t rank = scan.column(events::rank).data<uint32_t>()[r];
      int64_t correlation = scan.column(events::correlation).data<int64_t>()[r];
      if (isDeviceType(type)) ++kernels[{rank, correlation}];
      if (type == EventType::runtime) ++launches[{rank, correlation}];
    }
  ASSERT_GT(kernels.size(), 100000u);
  size_t missing = 0;
  for (const auto& [key, n] : kernels) {
    EXPECT_EQ(n, 1);
    missing += !launches.contains(key);
  }
  EXPECT_EQ(missing, 0u);
}

TEST_F(Sample, ClockTruthIsInTheTrace) {
  Scan scan(*reader_, tableOf<ClockRow>(), {}, {clocks::offset_ns, clocks::ts_from, clocks::drift_ppm});
  ASSERT_TRUE(scan.next());
  ASSERT_EQ(scan.rows().size(), 2u);
  for (uint32_t n = 0; n < 2; ++n) {
    EXPECT_EQ(scan.column(clocks::offset_ns).data<int64_t>()[n], job_.clock(static_cast<int>(n)).offset);
    EXPECT_EQ(scan.column(clocks::ts_from).data<int64_t>()[n], job_.clock(static_cast<int>(n)).raw_start);
    EXPECT_EQ(scan.column(clocks::drift_ppm).realAt(n), job_.clock(static_cast<int>(n)).drift_ppm);
  }
  EXPECT_NE(job_.clock(1).offset, 0);
}

}  // namespace
}  // namespace tracesmith::sim
