// Nothing is lost and nothing is stored twice, whoever is killed and whatever is full.
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class Faults : public ClusterFixture {
 protected:
  void kill(std::unique_ptr<Child>& child) {
    if (!child) return;
    child->signal(SIGKILL);
    child->wait();
    child.reset();
  }
  void rounds(bool flips);
  static void flipABit(const std::string& folder, std::mt19937& random) {
    std::vector<std::string> segments;
    std::error_code gone;
    for (const auto& file : std::filesystem::directory_iterator(folder, gone))
      if (file.path().extension() == ".sbt") segments.push_back(file.path());
    if (segments.empty()) return;
    std::sort(segments.begin(), segments.end());
    const std::string& path = segments[random() % segments.size()];
    std::string bytes = test::readFile(path);
    if (bytes.empty()) return;
    char& byte = bytes[random() % bytes.size()];
    byte = static_cast<char>(byte ^ 1 << random() % 8);
    test::writeFile(path, bytes);
  }
  void stopAndCheck(int64_t count) {
    const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt"});
    ASSERT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
    expectAllOnce(dir_ / "all.sbt", count);
    EXPECT_TRUE(test::losses(dir_ / "all.sbt").empty());
  }
};

/// Rounds of kills at random moments while a job counts. TRACESMITH_ROUNDS=100 is the long form. In every other round
/// without its master a bit flips on the master's disk, and in the others its clock, an hour ahead at first, is set
/// back: nothing is doubled, and what is missing is counted.
TEST_F(Faults, KillingAgentAndMasterAtAnyMomentLosesNothing) {
  for (bool flips : {false, true}) {
    SCOPED_TRACE(flips ? "with flipped bits" : "without");
    rounds(flips);
    master_.reset();
    std::filesystem::remove_all(dir_ / "m");
    std::filesystem::remove_all(dir_ / "a-alpha");
    std::filesystem::remove(dir_ / "all.sbt");
  }
}

void Faults::rounds(bool flips) {
  const char* set = std::getenv("TRACESMITH_ROUNDS");
  const int rounds = set ? std::atoi(set) : 5;
  const int64_t count = 20000 * rounds;
  const char* given = std::getenv("TRACESMITH_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device()();
  std::printf("TRACESMITH_SEED=%u\n", seed);
  std::fflush(stdout);  // also if it hangs
  std::mt19937 random(seed);
  startMaster();
  const std::string reference = dir_ / "m/master/reference";
  if (flips) {
    kill(master_);
    std::string boot, anchor, rest;
    std::istringstream was(test::readFile(reference));
    was >> boot >> anchor >> rest >> rest;
    anchor = std::to_string(std::stoll(anchor) + 3600 * 1'000'000'000LL);
    test::writeFile(reference, boot + " " + anchor + " 0 " + rest + "\n");
    startMaster();
  }
  // Small segments, which the agent soon has no more: what flips in them is lost.
  const std::vector<std::string> small =
      flips ? std::vector<std::string>{"--segment-bytes", "65536"} : std::vector<std::string>{};
  auto a = agent("alpha", small);
  ASSERT_TRUE(connected(1));
  // While both are killed, the clock may be set back by an unknown part of a second: it begins well before the job.
  ASSERT_EQ(command({"start", "--name", "all", "--last", "60", "-d", "100000"}).rc, 0);
  auto j = job(static_cast<uint64_t>(count), 30000, 1 << 22);
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    const int who = static_cast<int>(random() % 3);
    if (who != 1) kill(a);
    if (who != 0) kill(master_);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 200));
    if (!master_ && flips && round % 2 == 0) flipABit(dir_ / "m/master/nodes/alpha", random);
    if (!master_ && flips && round % 2 == 1) {
      const std::string was = test::readFile(reference);
      test::writeFile(reference, "another-boot" + was.substr(was.find(' ')));
    }
    if (!master_) startMaster();
    if (!a) a = agent("alpha", small);
  }
  ASSERT_EQ(j->wait().rc, 0);
  ASSERT_TRUE(connected(1));
  if (!flips) return stopAndCheck(count);
  const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::map<int64_t, int> found = numbers(dir_ / "all.sbt");
  for (const auto& [number, times] : found) ASSERT_EQ(times, 1) << number;
  std::printf("%zu of %lld events are there\n", found.size(), static_cast<long long>(count));
  // Which are missing says why: those of a damaged block, or the last ones.
  for (int64_t from = 0, number = 0; number <= count; ++number) {
    if (number < count && !found.contains(number)) continue;
    if (number > from)
      std::printf("missing: %lld to %lld\n", static_cast<long long>(from), static_cast<long long>(number - 1));
    from = number + 1;
  }
  int64_t lost = 0;
  for (const test::Row& row : test::rows(dir_ / "all.sbt", "losses")) {
    EXPECT_EQ(row.s("cause"), "damaged") << row.s("detail");
    EXPECT_NE(row.i("count"), trace::kNull) << row.s("detail");
    std::printf("lost: %lld, %s\n", static_cast<long long>(row.i("count")), row.s("detail").c_str());
    if (has(row.s("detail"), "rows of counters")) lost += row.i("count");
  }
  EXPECT_EQ(static_cast<int64_t>(found.size()) + lost, count);
}

TEST_F(Faults, AJobThatEndsWhileTheAgentIsDownIsThere) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  kill(a);
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  a = agent("alpha");
  ASSERT_TRUE(connected(1));
  stopAndCheck(5000);
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(rings()); })) << "collected rings are removed";
}

TEST_F(Faults, WhatARingOverwritesIsCounted) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  auto first = job(100, 100000, 1024);
  ASSERT_EQ(first->wait().rc, 0);
  // A ring of 1024 and a burst of 50000: most of it cannot be kept.
  ASSERT_EQ(job(50000, 100000000, 1024)->wait().rc, 0);
  const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  int64_t rows = 0, lost = 0;
  for (const auto& [number, times] : numbers(dir_ / "all.sbt")) rows += times;
  for (const auto& [cause, count] : test::losses(dir_ / "all.sbt")) lost += count;
  EXPECT_GT(lost, 0);
  EXPECT_GE(rows + lost, 50100);
  EXPECT_LE(rows + lost, 50101) << "the record that names the thread may be among the lost";
}

TEST_F(Faults, AMasterThatIsAwayIsWaitedFor) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  master_->signal(SIGSTOP);  // it neither answers nor goes away
  ASSERT_EQ(job(30000, 100000)->wait().rc, 0);
  master_->signal(SIGCONT);
  stopAndCheck(30000);
}

/// What a machine that loses its power leaves behind: half a block at the end of a file, on either side.
TEST_F(Faults, TornLastBlocksOnBothSidesLoseNothing) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  auto j = job(60000, 30000, 1 << 20);
  auto newest = [&](const std::string& folder) {
    std::string path;
    std::error_code gone;
    for (const auto& file : std::filesystem::directory_iterator(folder, gone))
      if (file.path().extension() == ".sbt") path = std::max(path, file.path().string());
    return path;
  };
  const std::string store = dir_ / "m/master/nodes/alpha", spool = dir_ / "a-alpha/agent/spool";
  ASSERT_TRUE(eventually([&] { return !newest(store).empty() && std::filesystem::file_size(newest(store)) > 4096; }));
  // The master's copy ends in the middle of a block it had not acknowledged: the beginning of the next one is there.
  kill(master_);
  std::string bytes = test::readFile(newest(store));
  test::writeFile(newest(store), bytes + bytes.substr(64, 1000));
  startMaster();
  ASSERT_TRUE(connected(1));
  // The agent's ends in the middle of what came after its last checkpoint.
  kill(a);
  bytes = test::readFile(newest(spool));
  test::writeFile(newest(spool), bytes + bytes.substr(64, 777));
  a = agent("alpha");
  ASSERT_EQ(j->wait().rc, 0);
  ASSERT_TRUE(connected(1));
  stopAndCheck(60000);
}

/// A file system of its own that can be filled. Needs to be root.
class FullDisk : public Faults {
 protected:
  void SetUp() override {
    folder_ = dir_ / "disk";
    ::mkdir(folder_.c_str(), 0700);
    if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
    mounted_ = true;
  }
  void TearDown() override {
    if (!mounted_) return;
    master_.reset();
    ::umount2(folder_.c_str(), MNT_DETACH);
  }
  void fill() { test::writeFile(folder_ + "/ballast", std::string(2 << 20, 'x')); }
  void makeRoom() { std::filesystem::remove(folder_ + "/ballast"); }
  std::string folder_;
  bool mounted_ = false;
};

TEST_F(FullDisk, OfTheAgentIsShownAndMended) {
  agent_data_ = folder_ + "/a";
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(folder_ + "/a/agent/captures"), " "); }));
  fill();
  auto j = job(40000, 100000);
  ASSERT_EQ(j->wait().rc, 0);
  EXPECT_TRUE(eventually([&] { return has(command({"status"}).err, "No space left"); }));
  makeRoom();
  EXPECT_TRUE(eventually([&] { return !has(command({"status"}).err, "No space left"); }));
  stopAndCheck(40000);
}

/// What is not summarised yet is on the disk, too.
TEST_F(FullDisk, OfAnAgentThatKeepsASummaryIsShownAndMended) {
  agent_data_ = folder_ + "/a";
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all", "--keep", "summary"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(folder_ + "/a/agent/captures"), " "); }));
  fill();
  auto j = job(40000, 100000);
  ASSERT_EQ(j->wait().rc, 0);
  EXPECT_TRUE(eventually([&] { return has(command({"status"}).err, "No space left"); }));
  makeRoom();
  EXPECT_TRUE(eventually([&] { return !has(command({"status"}).err, "No space left"); }));
  stopAndCheck(40000);
}

TEST_F(FullDisk, OfTheMasterIsShownAndMended) {
  master_data_ = folder_ + "/m";
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  fill();
  ASSERT_EQ(job(40000, 100000)->wait().rc, 0);
  EXPECT_TRUE(eventually([&] { return has(command({"status"}).err, "No space left"); }));
  makeRoom();
  stopAndCheck(40000);
}

}  // namespace
}  // namespace tracesmith::cluster
