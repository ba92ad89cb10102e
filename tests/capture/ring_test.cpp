// Rings: what is committed can be read, what is lost is counted, nothing is torn, and hostile files are refused.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <set>
#include <thread>

#include "capture/ring/reader.hpp"
#include "capture/ring/writer.hpp"
#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith::ring {
namespace {

using test::eventually;
using test::TempDir;

constexpr RingOptions kSmall{.lane0_records = 1024, .lane_records = 1024, .lanes = 8, .strings_bytes = 1 << 20};

/// A record that can prove it is whole.
Record numbered(uint64_t number, uint64_t writer = 0) {
  Record r{};
  r.kind = Kind::counter;
  r.start = number * 0x9e3779b97f4a7c15ull;
  r.end = ~number;
  r.arg[0] = number;
  r.arg[1] = writer;
  r.arg[2] = number ^ writer << 32;
  r.arg[3] = number * 31 + writer * 17;
  return r;
}

bool whole(const Record& r) {
  const Record expected = numbered(r.arg[0], r.arg[1]);
  return std::memcmp(&r, &expected, sizeof r) == 0;
}

/// Words shared with child processes.
struct Shared {
  std::atomic<uint64_t> progress{0}, lost{0};
  std::atomic<bool> ready{false}, stop{false};
};

class RingTest : public ::testing::Test {
 protected:
  RingTest() {
    void* p = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (p) Shared;
  }
  ~RingTest() override {
    for (pid_t pid : children_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  /// A process with a ring at path(); it stays until it is waited for or killed.
  pid_t start(const RingOptions& options, const std::function<void(RingWriter&)>& work) {
    ::unlink(path().c_str());
    shared_->ready = false;
    pid_t pid = ::fork();
    if (pid == 0) {
      RingWriter* ring = RingWriter::create(path().c_str(), options);
      if (!ring) ::_exit(9);
      ring->header().state = State::alive;
      work(*ring);
      ::_exit(0);
    }
    children_.insert(pid);
    return pid;
  }
  /// The same, to its end.
  void write(const RingOptions& options, const std::function<void(RingWriter&)>& work) {
    ASSERT_EQ(end(start(options, work)), 0);
  }
  int end(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    children_.erase(pid);
    return status;
  }
  std::unique_ptr<RingReader> open() {
    Result<std::unique_ptr<RingReader>> reader = RingReader::open(path());
    EXPECT_TRUE(reader) << reader.status().message();
    return reader ? std::move(*reader) : nullptr;
  }
  std::string path() const { return dir_ / "1.ring"; }

  TempDir dir_;
  Shared* shared_;
  std::set<pid_t> children_;
};

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
  std::set<uint64_t> ids;
  reader->drain([&](uint32_t lane, const Record& r) {
    if (r.kind == Kind::thread) {
      ids.insert(r.arg[0]);
      return;
    }
    EXPECT_TRUE(whole(r));
    EXPECT_EQ(r.arg[0], next[r.arg[1]]++);
    lanes[r.arg[1]].insert(lane);
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
    EXPECT_EQ(r.arg[0], next++);
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
    if (lane == 2 && r.kind != Kind::thread) got.push_back(r.arg[0]);
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
    EXPECT_EQ(r.arg[0], next++) << "the oldest are kept";
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
      EXPECT_EQ(r.arg[0], next++);
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
  for (int round = 0; round < 3000; ++round) {
    const uint64_t before = shared_->progress.load(std::memory_order_acquire);
    uint64_t last = 0;
    const size_t got = reader->snapshot([&](uint32_t, const Record& r) {
      ++records;
      torn += !whole(r);
      gaps += last != 0 && r.arg[0] != last + 1;
      last = r.arg[0];
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
    ASSERT_TRUE(received[r.arg[1]]++ == 0 || r.arg[0] > last[r.arg[1]]) << "out of order";
    last[r.arg[1]] = r.arg[0];
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
  std::map<uint32_t, uint64_t> owner;
  std::map<uint64_t, uint64_t> lane_of;
  reader->drain([&](uint32_t lane, const Record& r) {
    if (r.kind == Kind::thread)
      EXPECT_TRUE(owner.emplace(lane, r.arg[0]).second);
    else
      lane_of[r.arg[1]] = lane;
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
      back += got++ > 0 && r.arg[0] <= last;
      last = r.arg[0];
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
      ASSERT_EQ(reader->string(r.name), "name " + std::to_string(r.arg[0] / 1000));
      Record bare = r;
      bare.name = 0;
      ASSERT_TRUE(whole(bare));
      if (count++ == 0) first = r.arg[0];
      last = r.arg[0];
    });
    EXPECT_GE(last, committed);
    EXPECT_LE(last, committed + 1);
    EXPECT_EQ(count, last - first + 1);
    EXPECT_TRUE(first == 1 || count >= kCapacity - 1) << first << " " << count;
  }
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
    if (r.kind != Kind::mark) return;
    EXPECT_EQ(reader->string(r.name), "string " + std::to_string(next++));
  });
  EXPECT_EQ(next, kStrings);
}

TEST_F(RingTest, OutOfRoomForNamesIsCountedAndTheRecordKept) {
  write({.lane0_records = 1024, .lane_records = 1024, .lanes = 2, .strings_bytes = 4096}, [](RingWriter& ring) {
    for (uint64_t i = 0; i < 600; ++i) {
      Record r{};
      r.kind = Kind::mark;
      r.arg[0] = i;
      r.name = ring.intern(("a name of some length " + std::to_string(i)).c_str());
      ring.write(r);
    }
    Record r{};
    r.kind = Kind::mark;
    r.arg[0] = 600;
    r.name = ring.intern("a name of some length 0");
    ring.write(r);
  });
  auto reader = open();
  uint64_t next = 0, unnamed = 0;
  reader->drain([&](uint32_t, const Record& r) {
    if (r.kind != Kind::mark) return;
    EXPECT_EQ(r.arg[0], next++);
    if (r.name == 0)
      ++unnamed;
    else
      EXPECT_EQ(reader->string(r.name), "a name of some length " + std::to_string(r.arg[0] % 600));
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

/// Rings that were tampered with.
class HostileRing : public RingTest {
 protected:
  void SetUp() override {
    write(kSmall, [](RingWriter& ring) {
      Record r = numbered(1);
      r.name = ring.intern("name");
      for (int i = 0; i < 3000; ++i) ring.write(r);
    });
    good_ = test::readFile(path());
    ASSERT_TRUE(RingReader::open(path()));
  }
  template <typename T>
  void expectRefused(size_t offset, T value, const char* what) {
    std::string bytes = good_;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    test::writeFile(path(), bytes);
    Result<std::unique_ptr<RingReader>> reader = RingReader::open(path());
    ASSERT_FALSE(reader) << what;
    EXPECT_NE(reader.status().message().find(path()), std::string::npos) << reader.status().message();
  }
  /// Opens a changed ring and reads everything; it must end and stay inside the file.
  template <typename T>
  void expectSurvived(size_t offset, T value) {
    std::string bytes = good_;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    test::writeFile(path(), bytes);
    auto reader = open();
    ASSERT_TRUE(reader);
    size_t length = 0;
    auto visit = [&](uint32_t, const Record& r) { length += reader->string(r.name).size(); };
    EXPECT_LE(reader->snapshot(visit), 8u * 1024);
    EXPECT_LE(reader->drain(visit), 8u * 1024);
    EXPECT_LT(length, 1u << 30);  // names stay inside the file
  }
  static size_t lane(uint32_t index, size_t field) { return 4096 + index * sizeof(LaneHeader) + field; }
  std::string good_;
};

TEST_F(HostileRing, IsRefused) {
  using H = RingHeader;
  expectRefused(offsetof(H, magic), uint64_t{1}, "wrong magic");
  expectRefused(offsetof(H, version), 99u, "another version");
  expectRefused(offsetof(H, record_bytes), 32u, "other records");
  expectRefused(offsetof(H, file_bytes), uint64_t{4096}, "size in the header is not the file's");
  expectRefused(offsetof(H, lanes), 0u, "no lanes");
  expectRefused(offsetof(H, lanes), 1000000u, "too many lanes");
  expectRefused(offsetof(H, lanes_offset), uint64_t{1} << 60, "lanes beyond the file");
  expectRefused(offsetof(H, lanes_offset), ~uint64_t{0} - 1023, "lanes that wrap around");
  expectRefused(offsetof(H, lanes_offset), uint64_t{4097}, "lanes at an odd place");
  expectRefused(offsetof(H, strings_offset), ~uint64_t{0}, "strings beyond the file");
  expectRefused(offsetof(H, strings_bytes), uint64_t{1} << 40, "strings longer than the file");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 0u, "a lane without records");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 1000u, "a capacity that is no power of two");
  expectRefused(lane(1, offsetof(LaneHeader, records)), 1u << 31, "a lane longer than the file");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), uint64_t{4100}, "a lane at an odd place");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), uint64_t{1} << 50, "a lane beyond the file");
  expectRefused(lane(1, offsetof(LaneHeader, offset)), ~uint64_t{0} - 63, "a lane that wraps around");
}

TEST_F(HostileRing, IsRefusedWhenCut) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, good_.size() / 2, good_.size() - 1}) {
    test::writeFile(path(), good_.substr(0, size));
    EXPECT_FALSE(RingReader::open(path())) << size;
  }
}

TEST_F(HostileRing, DoesNotLeadOutsideTheFile) {
  for (uint64_t v : {uint64_t{0}, uint64_t{5}, uint64_t{100000}, uint64_t{1} << 63, ~uint64_t{0}}) {
    expectSurvived(lane(1, offsetof(LaneHeader, head)), v);
    expectSurvived(lane(1, offsetof(LaneHeader, tail)), v);
  }
  expectSurvived(offsetof(RingHeader, lanes_used), ~0u);
  const size_t strings = good_.size() - kSmall.strings_bytes;
  expectSurvived(strings + 8, ~0u);  // the length of the first string
  expectSurvived(strings + 8, kSmall.strings_bytes);
}

TEST_F(HostileRing, IsRefusedWhenItIsNoFile) {
  std::filesystem::create_directory(dir_ / "folder.ring");
  EXPECT_FALSE(RingReader::open(dir_ / "folder.ring"));
  ASSERT_EQ(::mkfifo((dir_ / "pipe.ring").c_str(), 0600), 0);
  EXPECT_FALSE(RingReader::open(dir_ / "pipe.ring"));
  std::filesystem::create_symlink(path(), dir_ / "link.ring");
  EXPECT_FALSE(RingReader::open(dir_ / "link.ring"));
  EXPECT_FALSE(RingReader::open(dir_ / "none.ring"));
}

TEST(RingFolder, MustBeOursAlone) {
  TempDir dir;
  const char* before = std::getenv("TRACESMITH_DIR");
  const std::string saved = before ? before : "";
  auto folder = [&](const std::string& path) {
    ::setenv("TRACESMITH_DIR", path.c_str(), 1);
    return ringFolder();
  };
  Result<std::string> made = folder(dir / "new");
  ASSERT_TRUE(made) << made.status().message();
  struct stat st;
  ASSERT_EQ(::stat(made->c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  for (mode_t mode : {0755u, 0770u, 0701u}) {
    ASSERT_EQ(::chmod(made->c_str(), mode), 0);
    Result<std::string> refused = folder(dir / "new");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.status().message().find("chmod 700"), std::string::npos);
  }
  ASSERT_EQ(::chmod(made->c_str(), 0700), 0);
  std::filesystem::create_symlink(*made, dir / "link");
  EXPECT_FALSE(folder(dir / "link"));
  test::writeFile(dir / "file", "");
  EXPECT_FALSE(folder(dir / "file"));
  EXPECT_FALSE(folder(dir / "none/deeper"));
  if (before)
    ::setenv("TRACESMITH_DIR", saved.c_str(), 1);
  else
    ::unsetenv("TRACESMITH_DIR");
}

}  // namespace
}  // namespace tracesmith::ring
