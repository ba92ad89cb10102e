// The simulated job is consistent: what later analyses find in it is really there.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

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

TEST(Synth, ShardedLayersAreGatheredAheadAndScatteredInTheOrderOfTheCalls) {
  const Job job({.events = 20000, .ranks = 4, .seed = 5, .sharded = true, .faults = Faults::none()});
  const auto& models = job.collectives();
  JobRows rows(job);
  ASSERT_TRUE(rows.nextWindow(1));
  int turns = 0;  // from one function to the other
  for (size_t k = 1; k < models.size(); ++k) turns += std::string(models[k].op) != models[k - 1].op;
  EXPECT_GE(turns, 3);
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<std::pair<int64_t, int64_t>> work;  // of the first step
    rows.events(rank, [&](const SimEvent& e, int step) {
      if (step == rows.firstStep() && e.type == EventType::kernel && !e.collective) work.emplace_back(e.start, e.end);
    });
    ASSERT_FALSE(work.empty());
    auto time = [&](size_t k) { return rows.collective(rows.firstStep(), rank, k); };
    EXPECT_GE(work.front().first, time(0).end) << "a layer waits for its parameters";
    EXPECT_LT(time(1).enqueue, work.front().first) << "the next layer is gathered meanwhile";
    for (size_t k = 1; k < models.size(); ++k) {
      EXPECT_GT(time(k).enqueue, time(k - 1).enqueue);
      EXPECT_GE(time(k).start, time(k - 1).end) << "one after the other on a communicator, whatever their streams";
    }
  }
}

TEST(Synth, NcclCountsEachFunctionByItself) {
  const Job job({.events = 20000, .ranks = 4, .seed = 5, .sharded = true, .faults = Faults::none()});
  std::map<std::string, int64_t> numbers, nccl;
  for (int step = 0; step < 3; ++step)
    for (const CollectiveModel& model : job.collectives()) {
      const std::string group = std::to_string(static_cast<int>(model.group));
      EXPECT_EQ(job.numberOf(0, model, step), numbers[group]++);
      EXPECT_EQ(Job::ncclNumberOf(model, step), nccl[group + model.op]++);
    }
  EXPECT_GT(nccl.size(), numbers.size());
}

TEST(Synth, AStageWaitsInsideItsReceives) {
  const Job job(
      {.events = 20000, .ranks = 4, .gpus_per_node = 4, .pipeline = 4, .stages_only = true, .faults = Faults::none()});
  JobRows rows(job);
  ASSERT_TRUE(rows.nextWindow(1));
  const int step = rows.firstStep();
  int waits = 0, receives = 0;
  for (int rank = 0; rank < 4; ++rank)
    for (size_t k = 0; k < job.collectives().size(); ++k) {
      const CollectiveModel& model = job.collectives()[k];
      if (!job.takesPart(rank, model)) continue;
      ASSERT_TRUE(model.pair()) << "nothing joins all ranks";
      if (!model.receives()) continue;
      const CollectiveTime &here = rows.collective(step, rank, k),
                           &sent = rows.collective(step, job.peerOf(rank, model), k + 2);
      EXPECT_GT(here.end, sent.start);
      waits += here.start < sent.start;
      ++receives;
    }
  EXPECT_EQ(receives, 3 * 2 * 4);
  EXPECT_GE(2 * waits, receives);
}

TEST(Synth, StagesRunForwardAndBackwardPassesInTurn) {
  const Job job({.events = 20000,
                 .ranks = 4,
                 .gpus_per_node = 4,
                 .pipeline = 4,
                 .stages_only = true,
                 .in_turn = true,
                 .faults = Faults::none()});
  EXPECT_EQ(job.segmentOrder(3), (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(job.segmentOrder(1), (std::vector<int>{0, 1, 2, 4, 3, 5, 6, 7}));
  JobRows rows(job);
  ASSERT_TRUE(rows.nextWindow(1));
  for (int rank = 0; rank < 4; ++rank) {
    int64_t called = 0;
    for (int segment : job.segmentOrder(rank))
      for (size_t k : {3 * static_cast<size_t>(segment), 3 * static_cast<size_t>(segment) + 2}) {
        const CollectiveModel& model = job.collectives()[k];
        if (!job.takesPart(rank, model)) continue;
        const CollectiveTime& t = rows.collective(rows.firstStep(), rank, k);
        EXPECT_GT(t.enqueue, called) << rank << " " << k;
        called = t.enqueue;
        if (model.receives()) {
          EXPECT_GT(t.end, rows.collective(rows.firstStep(), job.peerOf(rank, model), k + 2).start);
        }
      }
  }
}

/// With several chunks a microbatch goes round all stages once for each, and what one stage sends another receives.
TEST(Synth, AMicrobatchGoesRoundOnceForEachChunk) {
  const Job job({.events = 20000,
                 .ranks = 4,
                 .gpus_per_node = 4,
                 .pipeline = 4,
                 .stages_only = true,
                 .in_turn = true,
                 .chunks = 2,
                 .faults = Faults::none()});
  EXPECT_EQ(job.segmentOrder(3), (std::vector<int>{0, 1, 2, 3, 4, 8, 5, 9, 6, 10, 7, 11, 12, 13, 14, 15}));
  JobRows rows(job);
  ASSERT_TRUE(rows.nextWindow(1));
  std::map<std::tuple<int, int, int64_t>, std::pair<int64_t, int64_t>> sent;  // by stages and number: bytes, start
  std::map<std::pair<int, int>, int64_t> numbers;
  auto each = [&](bool sends, auto visit) {
    for (int rank = 0; rank < 4; ++rank)
      for (int segment : job.segmentOrder(rank)) {
        const size_t k = 3 * static_cast<size_t>(segment) + (sends ? 2 : 0);
        const CollectiveModel& model = job.collectives()[k];
        if (job.takesPart(rank, model))
          visit(rank, job.peerOf(rank, model), job.numberOf(rank, model, 0), model,
                rows.collective(rows.firstStep(), rank, k));
      }
  };
  each(true, [&](int from, int to, int64_t number, const CollectiveModel& model, const CollectiveTime& time) {
    EXPECT_EQ(number, (numbers[{from, to}]++)) << "numbers of a pair are in the order of its calls";
    sent[{from, to, number}] = {model.bytes, time.start};
  });
  size_t received = 0;
  each(false, [&](int to, int from, int64_t number, const CollectiveModel& model, const CollectiveTime& time) {
    ASSERT_TRUE((sent.contains({from, to, number}))) << from << " " << to << " " << number;
    EXPECT_EQ((sent[{from, to, number}].first), model.bytes);
    EXPECT_GT(time.end, (sent[{from, to, number}].second));
    ++received;
  });
  EXPECT_EQ(received, 2u * 4 * 7) << "two passes of four microbatches through eight chunks";
  EXPECT_EQ(sent.size(), received);
}

TEST(Synth, RefusesLayoutsThatItCannotPlay) {
  EXPECT_FALSE(checkLayout({.ranks = 4, .pipeline = 2, .in_turn = true, .chunks = 2}));
  EXPECT_FALSE(checkLayout({.ranks = 4, .pipeline = 4, .microbatches = 6, .in_turn = true, .chunks = 2}));
  EXPECT_FALSE(checkLayout({.ranks = 4, .pipeline = 4, .chunks = 2}));
  EXPECT_FALSE(checkLayout({.ranks = 4, .pipeline = 2, .sharded = true}));
  EXPECT_FALSE(checkLayout({.ranks = 4, .pipeline = 2, .stages_only = true}));
  EXPECT_FALSE(checkLayout({.ranks = 4, .in_turn = true}));
  EXPECT_TRUE(checkLayout({.ranks = 4, .pipeline = 2, .tensor = 2, .stages_only = true}));
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
