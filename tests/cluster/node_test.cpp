// What a node goes through: other boots, clocks that are set, rings of other users, processes nobody recorded.
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <thread>

#include "capture/ring/folders.hpp"
#include "cluster/cluster_fixture.hpp"
#include "support/tcp_relay.hpp"

namespace tracesmith::cluster {
namespace {

class NodeTest : public ClusterFixture {
 protected:
  void begin() {
    startMaster();
    agent_ = agent("alpha");
    ASSERT_TRUE(connected(1));
    ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
    ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  }
  void kill() {
    agent_->signal(SIGKILL);
    agent_->wait();
  }
  /// Each of 0…count−1 exactly `times` times.
  void stopAndCheck(int64_t count, int times) {
    const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt"});
    ASSERT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete") && !has(o.out, "incomplete")) << o.out << o.err;
    const std::map<int64_t, int> found = numbers(dir_ / "all.sbt");
    EXPECT_EQ(found.size(), static_cast<size_t>(count));
    for (const auto& [number, n] : found) ASSERT_EQ(n, times) << number;
  }
  bool ringsGone() {
    return eventually([&] { return std::filesystem::is_empty(rings()); });
  }
  std::unique_ptr<Child> agent_;
};

TEST_F(NodeTest, AnotherBootGoesOnWithTheSpoolOfTheLast) {
  // The kernel's boot id is replaced for the agent alone, in a mount namespace of its own.
  test::writeFile(dir_ / "boot", "11111111-2222-3333-4444-555555555555\n");
  wrapper_ = {
      "unshare", "-m", "sh", "-c", "mount --bind " + dir_ / "boot" + " /proc/sys/kernel/random/boot_id && exec \"$@\"",
      "sh"};
  const Output can = test::run(
      {"unshare", "-m", "sh", "-c",
       "mount --bind " + dir_ / "boot" + " /proc/sys/kernel/random/boot_id && cat /proc/sys/kernel/random/boot_id"});
  if (!has(can.out, "11111111")) GTEST_SKIP() << "the boot id cannot be replaced here: " << can.err;
  const std::vector<std::string> other_boot = std::exchange(wrapper_, {});
  begin();
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  ASSERT_TRUE(ringsGone()) << "what the first job did is in the spool";
  master_->signal(SIGKILL);  // and stays there
  master_->wait();
  kill();
  wrapper_ = other_boot;
  startMaster();
  agent_ = agent("alpha");
  ASSERT_TRUE(connected(1));
  EXPECT_TRUE(eventually([&] { return has(test::readFile(dir_ / "m/master/nodes/alpha/node"), "boot_id 11111111"); }));
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  stopAndCheck(5000, 2);
}

TEST_F(NodeTest, TheTimeOfDayMayBeSetBackByAnHour) {
  test::writeFile(dir_ / "step", "0");
  more_environment_ = {{"LD_PRELOAD", std::string(TRACESMITH_BUILD_DIR) + "/lib/libstep_clock.so"},
                       {"STEP_CLOCK_FILE", dir_ / "step"},
                       {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}};
  ASSERT_TRUE(test::exists(more_environment_[0].second));
  // By way of a relay that takes no datagrams: the kernel's own times of those would not be set back.
  startMaster();
  test::TcpRelay relay(port_);
  dial_ = relay.address();
  agent_ = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  test::writeFile(dir_ / "step.new", "-3600");
  std::filesystem::rename(dir_ / "step.new", dir_ / "step");
  EXPECT_LT(std::stoll(test::runWith(environment(), {"date", "+%s"}).out), ::time(nullptr) - 3000);
  kill();  // its next run names its files by a time before those that are there, and knows no clock at first
  std::filesystem::remove(dir_ / "a-alpha/agent/clock");
  agent_ = agent("alpha");
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  stopAndCheck(5000, 2);
  const test::Row session = test::rows(dir_ / "all.sbt", "sessions").at(0);
  EXPECT_GT(session.i("ts_end"), session.i("ts_start"));
  EXPECT_LT(session.i("ts_end") - session.i("ts_start"), 600'000'000'000);
}

TEST_F(NodeTest, MemoryOfProcessesNobodyRecordedIsFreed) {
  startMaster();
  agent_ = agent("alpha", {"--keep-rings", "0"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(job(100, 100000)->wait().rc, 0);
  auto alive = job(1u << 30, 10);
  EXPECT_TRUE(eventually([&] {
    size_t n = 0;
    for ([[maybe_unused]] const auto& ring : std::filesystem::directory_iterator(rings())) ++n;
    return n == 1;
  })) << "the one of the process that runs stays";
  EXPECT_TRUE(alive->running());
}

TEST_F(NodeTest, RingsOfAllUsersAreReadAndOnlyWhereTheyMayBe) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to be root";
  constexpr uid_t kUser = 54321, kOther = 54322;
  auto folder = [&](const std::string& name, uid_t owner, mode_t mode) {
    const std::string path = dir_ / name;
    ::mkdir(path.c_str(), 0700);
    EXPECT_EQ(::chown(path.c_str(), owner, owner), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  };
  const std::string good = folder("tracesmith-54321", kUser, 0700);
  const std::string stolen = folder("tracesmith-54322", kUser, 0700);  // not of the user it is named after
  const std::string open = folder("tracesmith-54323", kOther + 1, 0777);
  ASSERT_EQ(::symlink(good.c_str(), (dir_ / "tracesmith-54324").c_str()), 0);
  for (const std::string& f : {good, stolen, open}) test::writeFile(f + "/1.2.ring", "no ring");
  ring::RingFolders folders(rings(), {dir_.path()});
  EXPECT_EQ(folders.rings(), std::vector<std::string>{good + "/1.2.ring"});
  folders.remove(stolen + "/../x.ring");
  folders.remove(good + "/1.2.ring");
  EXPECT_TRUE(folders.rings().empty());
  std::filesystem::remove(good + "/1.2.ring");

  // A job in a user's folder is recorded by an agent that is root, and its ring removed.
  more_environment_ = {{"TRACESMITH_RING_ROOTS", dir_.path()}};
  begin();
  Child j({std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/numbered_job", good, "3000", "100000"});
  ASSERT_EQ(j.wait().rc, 0);
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(good); }));
  EXPECT_TRUE(has(agent_->err(), "tracesmith-54322 are not read: it belongs to another user")) << agent_->err();
  EXPECT_TRUE(has(agent_->err(), "tracesmith-54323 are not read: other users can write to it")) << agent_->err();
  EXPECT_TRUE(has(agent_->err(), "tracesmith-54324 are not read: it is not a folder")) << agent_->err();
  stopAndCheck(3000, 1);
}

TEST_F(NodeTest, RetentionIsPerSession) {
  startMaster();
  agent_ = agent("alpha", {"--segment-bytes", "65536"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "small", "--max-bytes", "200000"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  auto segments = [&] {
    size_t n = 0;
    for (const auto& file : std::filesystem::directory_iterator(dir_ / "m/master/nodes/alpha"))
      n += file.path().extension() == ".sbt";
    return n;
  };
  auto first = [&] {
    std::string least = "~";
    for (const auto& file : std::filesystem::directory_iterator(dir_ / "m/master/nodes/alpha"))
      if (file.path().extension() == ".sbt") least = std::min(least, file.path().filename().string());
    return least;
  };
  auto busy = std::make_unique<Child>(std::vector<std::string>{
      std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/numbered_job", rings(), "100000000", "100000", "1048576"});
  ASSERT_TRUE(eventually([&] { return segments() >= 2; }));
  const std::string oldest = first();
  EXPECT_TRUE(eventually([&] { return first() > oldest; })) << "the oldest go";
  // A session without limits keeps what is its own, though the other would let it go.
  ASSERT_EQ(command({"start", "--name", "whole"}).rc, 0);
  const size_t before = segments();
  EXPECT_TRUE(eventually([&] { return segments() >= before + 4; })) << segments();
  busy.reset();
  const Output whole = command({"stop", "--name", "whole", "-o", dir_ / "whole.sbt"});
  ASSERT_EQ(whole.rc, 0) << whole.err;
  ASSERT_EQ(command({"stop", "--name", "small", "-o", dir_ / "small.sbt"}).rc, 0);
  // Nothing is missing between the first and the last number of the session that keeps everything.
  const std::map<int64_t, int> found = numbers(dir_ / "whole.sbt");
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(static_cast<int64_t>(found.size()), found.rbegin()->first - found.begin()->first + 1);
  EXPECT_GT(test::losses(dir_ / "small.sbt")["retention"], 0);
}

/// Any user may truncate his ring while the agent, which may be root's, reads it: the kernel answers with SIGBUS.
TEST_F(NodeTest, ARingThatIsCutShortUnderTheAgentHarmsNobody) {
  begin();
  for (const uintmax_t left : {uintmax_t{0}, uintmax_t{4096}, uintmax_t{100000}}) {
    auto victim = std::make_unique<Child>(std::vector<std::string>{
        std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/numbered_job", rings(), "100000000", "200000", "65536"});
    std::string ring;
    ASSERT_TRUE(eventually([&] {
      for (const auto& file : std::filesystem::directory_iterator(rings()))
        if (file.path().extension() == ".ring") ring = file.path();
      return !ring.empty() && has(command({"status", "--json"}).out, "\"processes\":1");
    }));
    std::filesystem::resize_file(ring, left);  // the writer dies of it, too
    victim->wait();
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(ring); })) << "it goes as others do";
    ASSERT_TRUE(agent_->running()) << agent_->err();
  }
  ASSERT_EQ(job(5000, 100000)->wait().rc, 0);
  ASSERT_EQ(command({"stop", "--name", "all", "-o", dir_ / "all.sbt"}).rc, 0);
  const std::map<int64_t, int> found = numbers(dir_ / "all.sbt");
  for (int64_t k = 0; k < 5000; ++k) ASSERT_TRUE(found.contains(k)) << k;
  size_t told = 0;
  for (const test::Row& row : test::rows(dir_ / "all.sbt", "losses")) told += row.s("cause") == "ring cut short";
  EXPECT_EQ(told, 3u);
}

TEST_F(NodeTest, RetentionByAgeBoundsASessionThatNeverEnds) {
  startMaster();
  agent_ = agent("alpha", {"--segment-bytes", "65536"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"start", "--name", "week", "--max-age", "0.5"}).rc, 0);
  auto busy = job(100000000, 100000);
  auto segments = [&] {
    std::set<std::string> names;
    std::error_code gone;
    for (const auto& file : std::filesystem::directory_iterator(dir_ / "m/master/nodes/alpha", gone))
      if (file.path().extension() == ".sbt") names.insert(file.path().filename());
    return names;
  };
  // Again and again all that was there a moment ago is gone: nothing grows, however long it goes on.
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(eventually([&] { return segments().size() >= 2; }));
    const std::string newest = *segments().rbegin();
    EXPECT_TRUE(eventually([&] { return *segments().begin() > newest; })) << "round " << round;
  }
  // While the job goes on: half a second later all there was would be too old.
  ASSERT_EQ(command({"stop", "--name", "week", "-o", dir_ / "week.sbt"}).rc, 0);
  // What is left is the end, without a gap; what went is counted.
  const std::map<int64_t, int> found = numbers(dir_ / "week.sbt");
  ASSERT_FALSE(found.empty());
  EXPECT_GT(found.begin()->first, 0);
  EXPECT_EQ(static_cast<int64_t>(found.size()), found.rbegin()->first - found.begin()->first + 1);
  EXPECT_GE(test::losses(dir_ / "week.sbt")["retention"], found.begin()->first);
  // And it stays: a session that has ended gets no older.
  ASSERT_EQ(command({"start", "--name", "next", "--max-bytes", "300000"}).rc, 0);
  const std::string last = *segments().rbegin();
  EXPECT_TRUE(eventually([&] {
    const std::set<std::string> all = segments();
    return std::distance(all.upper_bound(last), all.end()) >= 3;
  }));
  busy.reset();
  ASSERT_EQ(command({"recover", "--name", "week", "--export", dir_ / "again.sbt"}).rc, 0);
  EXPECT_EQ(numbers(dir_ / "again.sbt"), found);
}

}  // namespace
}  // namespace tracesmith::cluster
