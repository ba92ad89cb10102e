// Readers of a ring that is written meanwhile: nothing is torn, and nothing is lost without being counted.
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "capture/ring_fixture.hpp"
#include "support/child.hpp"

namespace tracesmith::ring {
namespace {

using test::eventually;

TEST_F(RingTest, AFullLaneWithAReaderDropsAndCountsExactly) {
  write(kSmall, [](RingWriter& ring) {
    ring.header().reader = static_cast<uint32_t>(::getppid());
    for (uint64_t i = 0; i < 5000; ++i) ring.write(numbered(i));
  });
  auto reader = open();
  EXPECT_EQ(reader->attachedReader(), ::getpid());
  uint64_t next = 0;
  reader->drain([&](uint32_t, const Record& r) {
    if (r.kind == Kind::thread) return;
    EXPECT_EQ(numberOf(r), next++) << "the oldest are kept";
  });
  EXPECT_EQ(next, 1023u) << "1024, one of them says which thread it is";
  EXPECT_EQ(reader->header().losses[kRingFull], 5000u - 1023);
}

TEST_F(RingTest, WithoutAReaderTheNewestAreKept) {
  write(kSmall, [](RingWriter& ring) {
    for (uint64_t i = 0; i < 5000; ++i) ring.write(numbered(i));
  });
  auto reader = open();
  uint64_t next = 5000 - 1023;
  for (int twice = 0; twice < 2; ++twice) {  // a snapshot takes nothing away
    next = 5000 - 1023;
    reader->snapshot([&](uint32_t, const Record& r) {
      EXPECT_TRUE(whole(r));
      EXPECT_EQ(numberOf(r), next++);
    });
    EXPECT_EQ(next, 5000u);
  }
  EXPECT_EQ(reader->header().losses[kRingFull], 0u);
}

TEST_F(RingTest, SnapshotsOfABusyWriterAreNewAndNeverTorn) {
  pid_t pid = start(kSmall, [this](RingWriter& ring) {
    for (uint64_t i = 0; !shared_->stop; ++i) {
      ring.write(numbered(i));
      shared_->progress.store(i, std::memory_order_release);
    }
  });
  ASSERT_TRUE(eventually([&] { return shared_->progress > 5000; }));
  auto reader = open();
  size_t records = 0, torn = 0, gaps = 0, old = 0, filled = 0;
  // A slow reader is nearly always overtaken: then it takes more rounds to see something.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto enough = [&] { return (filled > 10 && records > 1000) || std::chrono::steady_clock::now() > until; };
  for (int round = 0; round < 3000 || !enough(); ++round) {
    const uint64_t before = shared_->progress.load(std::memory_order_acquire);
    uint64_t last = 0;
    const size_t got = reader->snapshot([&](uint32_t, const Record& r) {
      ++records;
      torn += !whole(r);
      gaps += last != 0 && numberOf(r) != last + 1;
      last = numberOf(r);
    });
    filled += got > 0;
    old += got > 0 && last < before;
  }
  shared_->stop = true;
  EXPECT_EQ(end(pid), 0);
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(gaps, 0u);
  EXPECT_EQ(old, 0u) << "the newest record of a snapshot is older than the snapshot";
  EXPECT_GT(filled, 10u) << "snapshots were empty: nothing was tested";
  EXPECT_GT(records, 1000u);
}

TEST_F(RingTest, AReaderInAnotherProcessFollowsLive) {
  constexpr uint64_t kThreads = 3, kRecords = 200000;
  pid_t pid = start({.lane0_records = 1024, .lane_records = 1 << 13, .lanes = 8, .strings_bytes = 1 << 20},
                    [](RingWriter& ring) {
                      while (ring.header().reader == 0) std::this_thread::yield();
                      std::vector<std::thread> threads;
                      for (uint64_t t = 1; t <= kThreads; ++t)
                        threads.emplace_back([&ring, t] {
                          for (uint64_t i = 0; i < kRecords; ++i) ring.write(numbered(i, t));
                        });
                      for (std::thread& t : threads) t.join();
                      ring.header().state = State::ended;
                    });
  std::unique_ptr<RingReader> reader;
  ASSERT_TRUE(eventually([&] {
    auto opened = RingReader::open(path());
    if (opened) reader = std::move(*opened);
    return reader != nullptr;
  }));
  reader->attach();
  std::map<uint64_t, uint64_t> received, last;
  auto take = [&](uint32_t, const Record& r) {
    if (r.kind == Kind::thread) return;
    ASSERT_TRUE(whole(r));
    ASSERT_TRUE(received[writerOf(r)]++ == 0 || numberOf(r) > last[writerOf(r)]) << "out of order";
    last[writerOf(r)] = numberOf(r);
  };
  ASSERT_TRUE(eventually([&] {
    reader->drain(take);
    return !reader->alive();
  }));
  reader->drain(take);
  EXPECT_EQ(end(pid), 0);
  uint64_t all = 0;
  for (auto& [thread, count] : received) all += count;
  EXPECT_EQ(all + reader->header().losses[kRingFull], kThreads * kRecords) << "neither read nor counted";
  EXPECT_GT(all, 0u);
}

TEST_F(RingTest, AFullLaneIsNotHandedOn) {
  pid_t pid = start(kSmall, [](RingWriter& ring) {
    while (ring.header().reader == 0) std::this_thread::yield();
    for (uint64_t t = 1; t <= 2; ++t)
      std::thread([&] {
        for (uint64_t i = 0; i < kSmall.lane_records; ++i) ring.write(numbered(i, t));
      }).join();
    ring.header().state = State::ended;
  });
  std::unique_ptr<RingReader> reader;
  ASSERT_TRUE(eventually([&] {
    auto opened = RingReader::open(path());
    if (opened) reader = std::move(*opened);
    return reader != nullptr;
  }));
  reader->attach();
  EXPECT_EQ(end(pid), 0);
  std::map<uint32_t, int64_t> owner;
  std::map<uint64_t, uint64_t> lane_of;
  reader->drain([&](uint32_t lane, const Record& r) {
    if (r.kind == Kind::thread)
      EXPECT_TRUE(owner.emplace(lane, threadOf(r).thread).second);
    else
      lane_of[writerOf(r)] = lane;
  });
  EXPECT_EQ(owner.size(), 2u);
  EXPECT_NE(lane_of[1], lane_of[2]);
  EXPECT_EQ(reader->header().losses[kRingFull], 2u) << "each thread's own name took one record's room";
}

TEST_F(RingTest, AReaderThatAttachesInMidFlightSeesOnlyWholeRecords) {
  for (int round = 0; round < 50; ++round) {
    shared_->stop = false;
    shared_->progress = 0;
    pid_t pid = start(kSmall, [this](RingWriter& ring) {
      for (uint64_t i = 0; !shared_->stop; ++i) {
        ring.write(numbered(i));
        shared_->progress.store(i, std::memory_order_relaxed);
      }
    });
    ASSERT_TRUE(eventually([&] { return shared_->progress > 3000; }));
    auto reader = open();
    reader->attach();
    uint64_t last = 0, got = 0, torn = 0, back = 0;
    auto take = [&](uint32_t, const Record& r) {
      if (r.kind == Kind::thread) return;
      torn += !whole(r);
      back += got++ > 0 && numberOf(r) <= last;
      last = numberOf(r);
    };
    for (int i = 0; i < 3; ++i) reader->drain(take);
    shared_->stop = true;
    EXPECT_EQ(end(pid), 0);
    reader->drain(take);
    EXPECT_EQ(torn, 0u);
    EXPECT_EQ(back, 0u);
    EXPECT_GT(got, 0u);
    reader.reset();
    EXPECT_EQ(open()->header().reader, 0u) << "a reader that ends leaves the ring to itself";
  }
}

TEST_F(RingTest, AReaderThatDiedIsNotAttached) {
  write(kSmall, [](RingWriter&) {});
  pid_t dead = ::fork();
  if (dead == 0) {
    auto reader = RingReader::open(path());
    (*reader)->attach();
    ::_exit(0);
  }
  ::waitpid(dead, nullptr, 0);
  auto reader = open();
  EXPECT_EQ(reader->header().reader, static_cast<uint32_t>(dead));
  EXPECT_EQ(reader->attachedReader(), 0);
}

TEST_F(RingTest, KilledAtAnyMomentEverythingCommittedIsReadable) {
  constexpr uint64_t kCapacity = 1 << 14;
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    shared_->progress = 0;
    pid_t pid = start({.lane0_records = 1024, .lane_records = kCapacity, .lanes = 2, .strings_bytes = 1 << 20},
                      [this](RingWriter& ring) {
                        for (uint64_t i = 1;; ++i) {
                          Record r = numbered(i);
                          char name[32];
                          r.name = ring.intern(
                              name, static_cast<size_t>(std::snprintf(name, sizeof name, "name %lu", i / 1000)));
                          ring.write(r);
                          shared_->progress.store(i, std::memory_order_release);
                        }
                      });
    const uint64_t wanted = 1 + random() % 30000;
    ASSERT_TRUE(eventually([&] { return shared_->progress >= wanted; }));
    for (unsigned spin = random() % 20000; spin > 0; --spin) asm volatile("");
    ::kill(pid, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(end(pid)));
    const uint64_t committed = shared_->progress;

    auto reader = open();
    ASSERT_TRUE(reader);
    EXPECT_FALSE(reader->alive());
    uint64_t first = 0, last = 0, count = 0;
    reader->snapshot([&](uint32_t, const Record& r) {
      if (r.kind == Kind::thread) return;
      ASSERT_EQ(reader->string(r.name), "name " + std::to_string(numberOf(r) / 1000));
      Record bare = r;
      bare.name = 0;
      ASSERT_TRUE(whole(bare));
      if (count++ == 0) first = numberOf(r);
      last = numberOf(r);
    });
    EXPECT_GE(last, committed);
    EXPECT_LE(last, committed + 1);
    EXPECT_EQ(count, last - first + 1);
    EXPECT_TRUE(first == 1 || count >= kCapacity - 1) << first << " " << count;
  }
}

}  // namespace
}  // namespace tracesmith::ring
