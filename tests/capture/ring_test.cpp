// Rings: what is written can be read, each thread has a lane, names have one id, and what is lost is counted.
#include <sys/resource.h>

#include <map>
#include <thread>

#include "capture/ring_fixture.hpp"
#include "support/child.hpp"

namespace tracesmith::ring {
namespace {

TEST_F(RingTest, GivesBackWhatWasWritten) {
  write(kSmall, [](RingWriter& ring) {
    Record r = numbered(7);
    r.name = ring.intern("all of it");
    ring.write(r);
    ring.writeGpu(numbered(8));
    ring.header().rank = 3;
  });
  auto reader = open();
  EXPECT_EQ(reader->header().rank, 3);
  EXPECT_FALSE(reader->alive());
  std::vector<std::pair<uint32_t, Record>> got;
  EXPECT_EQ(reader->drain([&](uint32_t lane, const Record& r) { got.emplace_back(lane, r); }), 3u);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].first, 1u);
  EXPECT_EQ(got[0].second.kind, Kind::thread);
  EXPECT_EQ(reader->string(got[1].second.name), "all of it");
  got[1].second.name = 0;
  EXPECT_TRUE(whole(got[1].second));
  EXPECT_EQ(got[2].first, 0u) << "the GPU's lane comes last";
  EXPECT_TRUE(whole(got[2].second));
  EXPECT_EQ(reader->drain([](uint32_t, const Record&) {}), 0u) << "what was drained is gone";
}

TEST_F(RingTest, EachThreadHasALaneAndItsOrder) {
  constexpr uint64_t kThreads = 5, kRecords = 900;
  write(kSmall, [](RingWriter& ring) {
    std::vector<std::thread> threads;
    for (uint64_t t = 1; t <= kThreads; ++t)
      threads.emplace_back([&ring, t] {
        for (uint64_t i = 0; i < kRecords; ++i) ring.write(numbered(i, t));
        while (ring.header().lanes_used < kThreads + 1) std::this_thread::yield();  // all at once, so five lanes
      });
    for (std::thread& t : threads) t.join();
  });
  auto reader = open();
  std::map<uint64_t, uint64_t> next;
  std::map<uint64_t, std::set<uint32_t>> lanes;
  std::set<int64_t> ids;
  reader->drain([&](uint32_t lane, const Record& r) {
    if (r.kind == Kind::thread) {
      ids.insert(threadOf(r).thread);
      return;
    }
    EXPECT_TRUE(whole(r));
    EXPECT_EQ(numberOf(r), next[writerOf(r)]++);
    lanes[writerOf(r)].insert(lane);
  });
  EXPECT_EQ(ids.size(), kThreads);
  ASSERT_EQ(next.size(), kThreads);
  for (auto& [thread, count] : next) {
    EXPECT_EQ(count, kRecords);
    EXPECT_EQ(lanes[thread].size(), 1u);
  }
}

TEST_F(RingTest, LanesOfEndedThreadsAreUsedAgain) {
  write(kSmall, [](RingWriter& ring) {
    for (uint64_t t = 0; t < 100; ++t) std::thread([&ring, t] { ring.write(numbered(t)); }).join();
  });
  auto reader = open();
  uint64_t next = 0;
  reader->drain([&](uint32_t, const Record& r) {
    if (r.kind == Kind::thread) return;
    EXPECT_EQ(numberOf(r), next++);
  });
  EXPECT_EQ(next, 100u);
  EXPECT_EQ(reader->header().losses[kNoLane], 0u);
}

TEST_F(RingTest, AThreadThatWritesWhileItEndsDisturbsNoOther) {
  // Destructors of thread-specific values run in any order: one that writes after the lane was given back must not
  // write to it.
  write(kSmall, [this](RingWriter& ring) {
    static RingWriter* g_late;
    g_late = &ring;
    pthread_key_t key;  // made after the ring's own, so its destructor comes later
    ring.write(numbered(0, 9));
    pthread_key_create(&key, [](void*) { g_late->write(numbered(1, 1)); });
    std::thread([&] {
      pthread_setspecific(key, &ring);
      ring.write(numbered(0, 1));
    }).join();
    shared_->progress = ring.header().lanes_used;
    std::thread([&] { ring.write(numbered(2, 1)); }).join();  // finds a free lane
  });
  auto reader = open();
  EXPECT_EQ(shared_->progress, 3u);
  EXPECT_EQ(reader->header().lanes_used, 3u) << "a lane was not given back";
  std::vector<uint64_t> got;
  reader->drain([&](uint32_t lane, const Record& r) {
    if (lane == 2 && r.kind != Kind::thread) got.push_back(numberOf(r));
  });
  EXPECT_EQ(got, (std::vector<uint64_t>{0, 1, 2}));
}

TEST_F(RingTest, MoreThreadsThanLanesLoseAndCount) {
  constexpr int kThreads = 20;
  write(kSmall, [](RingWriter& ring) {  // 8 lanes, one of them the GPU's
    std::vector<std::thread> threads;
    std::atomic<int> done{0};
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (uint64_t i = 0; i < 10; ++i) ring.write(numbered(i));
        ++done;
        while (done < kThreads) std::this_thread::yield();
      });
    for (std::thread& t : threads) t.join();
  });
  auto reader = open();
  size_t kept = 0;
  reader->drain([&](uint32_t, const Record& r) { kept += r.kind != Kind::thread; });
  EXPECT_EQ(kept, 7u * 10);
  EXPECT_EQ(reader->header().losses[kNoLane], (kThreads - 7) * 10u);
}

TEST_F(RingTest, AStringHasOneIdWhoeverAsks) {
  constexpr int kThreads = 8, kStrings = 500;
  write(kSmall, [this](RingWriter& ring) {
    std::vector<std::vector<uint32_t>> ids(kThreads, std::vector<uint32_t>(kStrings));
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        for (int i = 0; i < kStrings; ++i)
          ids[static_cast<size_t>(t)][static_cast<size_t>(i)] = ring.intern(("string " + std::to_string(i)).c_str());
      });
    for (std::thread& t : threads) t.join();
    for (int t = 0; t < kThreads; ++t) shared_->lost += ids[static_cast<size_t>(t)] != ids[0];
    for (uint32_t id : ids[0]) {
      Record r{};
      r.kind = Kind::mark;
      r.name = id;
      ring.write(r);
    }
  });
  EXPECT_EQ(shared_->lost, 0u) << "threads with other ids";
  auto reader = open();
  int next = 0;
  reader->drain([&](uint32_t, const Record& r) {
    if (r.kind == Kind::thread) return;
    EXPECT_EQ(reader->string(r.name), "string " + std::to_string(next++));
  });
  EXPECT_EQ(next, kStrings);
}

TEST_F(RingTest, OutOfRoomForNamesIsCountedAndTheRecordKept) {
  write({.lane0_records = 1024, .lane_records = 1024, .lanes = 2, .strings_bytes = 4096}, [](RingWriter& ring) {
    for (uint64_t i = 0; i < 600; ++i) {
      Record r = numbered(i);
      r.name = ring.intern(("a name of some length " + std::to_string(i)).c_str());
      ring.write(r);
    }
    Record r = numbered(600);
    r.name = ring.intern("a name of some length 0");
    ring.write(r);
  });
  auto reader = open();
  uint64_t next = 0, unnamed = 0;
  reader->drain([&](uint32_t, const Record& r) {
    if (r.kind == Kind::thread) return;
    EXPECT_EQ(numberOf(r), next++);
    if (r.name == 0)
      ++unnamed;
    else
      EXPECT_EQ(reader->string(r.name), "a name of some length " + std::to_string(numberOf(r) % 600));
  });
  EXPECT_EQ(next, 601u);
  EXPECT_GT(unnamed, 400u);
  EXPECT_EQ(reader->header().losses[kNoStringRoom], unnamed);
}

TEST_F(RingTest, NoRoomForTheFileIsAnErrorNotASignal) {
  // Past the limit on the size of files the kernel sends SIGXFSZ.
  pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit limit{100000, 100000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(RingWriter::create(path().c_str(), kSmall) == nullptr && errno == EFBIG ? 0 : 1);
  }
  EXPECT_EQ(end(pid), 0);
  EXPECT_FALSE(test::exists(path()));
}

TEST_F(RingTest, NobodyElsesFileIsTaken) {
  test::writeFile(path(), "mine");
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(RingWriter::create(path().c_str(), kSmall) == nullptr ? 0 : 1);
  EXPECT_EQ(end(pid), 0);
  EXPECT_EQ(test::readFile(path()), "mine");
}

}  // namespace
}  // namespace tracesmith::ring
