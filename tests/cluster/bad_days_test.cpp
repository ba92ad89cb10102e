// Bad days of a whole cluster: a master restored from a backup, a clock that was set back, a node that died, a data
// folder that was copied, a disk that is full.
#include <sys/mount.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

namespace fs = std::filesystem;

class BadDays : public ClusterFixture {
 protected:
  static void kill(std::unique_ptr<Child>& child) {
    child->signal(SIGKILL);
    child->wait();
    child.reset();
  }
  /// Starts a session that the agents know of.
  void begin(const std::string& name) {
    ASSERT_EQ(command({"start", "--name", name}).rc, 0);
    ASSERT_TRUE(eventually([&] { return nodeField("captures") > 0; }));
  }
  /// `cluster record`, until somebody stops it: into NAME.sbt.
  Child recordUntilStopped(const std::string& name) {
    return Child({TRACESMITH_BIN, "cluster", "record", "--name", name, "-d", "3600", "-o", dir_ / (name + ".sbt"),
                  "--master", address()},
                 environment());
  }
  std::string finish(const std::string& name) {
    const Output o = command({"stop", "--name", name, "-o", dir_ / (name + ".sbt")});
    EXPECT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
    return dir_ / (name + ".sbt");
  }
};

TEST_F(BadDays, AMasterRestoredFromABackupGetsWhatTheAgentStillHas) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  begin("all");
  master_->signal(SIGSTOP);
  fs::copy(dir_ / "m", dir_ / "backup", fs::copy_options::recursive);
  master_->signal(SIGCONT);
  const int64_t before = nodeField("stored_bytes");
  ASSERT_EQ(job(20000, 1000000)->wait().rc, 0);
  ASSERT_TRUE(eventually([&] { return nodeField("stored_bytes") > before + 5000 && nodeField("spool_bytes") == 0; }));
  kill(master_);
  fs::remove_all(dir_ / "m");
  fs::rename(dir_ / "backup", dir_ / "m");
  startMaster();
  ASSERT_TRUE(connected(1));
  const std::string trace = finish("all");
  expectAllOnce(trace, 20000);
  EXPECT_TRUE(test::losses(trace).empty());
}

TEST_F(BadDays, WhatAnAgentHasRemovedIsMissingInTheTraceOfARestoredMaster) {
  startMaster();
  auto a = agent("alpha", {"--segment-bytes", "65536"});
  ASSERT_TRUE(connected(1));
  begin("all");
  ASSERT_TRUE(eventually([&] { return nodeField("stored_bytes") > 0; }));
  master_->signal(SIGSTOP);
  fs::copy(dir_ / "m", dir_ / "backup", fs::copy_options::recursive);
  master_->signal(SIGCONT);
  ASSERT_EQ(job(400000, 200000)->wait().rc, 0);
  ASSERT_TRUE(eventually([&] { return fs::exists(dir_ / "a-alpha/agent/spool/removed"); }));
  kill(master_);
  fs::remove_all(dir_ / "m");
  fs::rename(dir_ / "backup", dir_ / "m");
  startMaster();
  ASSERT_TRUE(connected(1));
  EXPECT_TRUE(eventually([&] { return has(master_->err(), "restored from an older state"); })) << master_->err();
  EXPECT_TRUE(test::losses(finish("all")).contains("gone at the master"));
}

/// The machine was booted, and its clock is an hour behind: what is stored lies in the future.
class ClockSetBack : public BadDays {
 protected:
  void SetUp() override {
    fs::create_directories(dir_ / "m/master");
    std::ifstream boot("/proc/sys/kernel/random/boot_id");
    std::string id;
    boot >> id;
    timespec unix_time, raw;
    ::clock_gettime(CLOCK_REALTIME, &unix_time);
    ::clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
    const int64_t anchor = (unix_time.tv_sec - raw.tv_sec + 3600) * 1'000'000'000;
    test::writeFile(reference(), id + " " + std::to_string(anchor) + "\n");
    startMaster();
    agent_ = agent("alpha");
    ASSERT_TRUE(connected(1));
  }
  std::string reference() const { return dir_ / "m/master/reference"; }
  void bootMaster() {
    kill(master_);
    const std::string was = test::readFile(reference());
    test::writeFile(reference(), "another-boot" + was.substr(was.find(' ')));
    startMaster();
    EXPECT_TRUE(has(master_->err(), "behind what the master has stored")) << master_->err();
    ASSERT_TRUE(connected(1));
  }
  std::unique_ptr<Child> agent_;
};

TEST_F(ClockSetBack, AMasterDoesNotTakeOldDataForNew) {
  begin("before");
  ASSERT_EQ(job(1000, 1000000)->wait().rc, 0);
  expectAllOnce(finish("before"), 1000);
  bootMaster();
  begin("after");
  ASSERT_EQ(job(2000, 1000000)->wait().rc, 0);
  const std::string trace = finish("after");
  expectAllOnce(trace, 2000);
  EXPECT_TRUE(test::losses(trace).empty());
}

TEST_F(ClockSetBack, WhatNodesRecordedMeanwhileBelongsToTheSession) {
  begin("all");
  auto j = job(60000, 30000);
  ASSERT_TRUE(eventually([&] { return nodeField("records") > 1000; }));
  master_->signal(SIGSTOP);  // it is away for a while, and the job goes on
  ASSERT_EQ(j->wait().rc, 0);
  bootMaster();
  const std::string trace = finish("all");
  expectAllOnce(trace, 60000);
  EXPECT_TRUE(test::losses(trace).empty());
}

TEST_F(BadDays, TheLivingAreWaitedForWhenANodeIsDead) {
  startMaster({"--node-timeout", "300"});
  auto a = agent("alpha"), b = agent("beta");
  ASSERT_TRUE(connected(2));
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  kill(b);
  ASSERT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"healthy\":false"); }));
  const Output o = command({"stop", "--name", "all", "--json", "-o", dir_ / "all.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "\"node\":\"alpha\",\"complete\":true")) << o.out;
  EXPECT_TRUE(has(o.out, "\"state\":\"incomplete\"")) << o.out;
  EXPECT_TRUE(has(o.err, "beta does not answer")) << o.err;
  EXPECT_FALSE(has(o.err, "alpha")) << o.err;
}

TEST_F(BadDays, CtrlCStopsARecordingAndSavesIt) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  Child record = recordUntilStopped("r");
  ASSERT_TRUE(eventually([&] { return nodeField("captures") > 0; }));
  record.signal(SIGINT);
  const Output o = record.wait();
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
  EXPECT_TRUE(fs::exists(dir_ / "r.sbt"));
}

TEST_F(BadDays, ASecondCtrlCLeavesTheSessionToTheMaster) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  Child record = recordUntilStopped("r");
  ASSERT_TRUE(eventually([&] { return nodeField("captures") > 0; }));
  a->signal(SIGSTOP);  // it delivers nothing
  record.signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return has(command({"sessions", "--json"}).out, "\"state\":\"collecting\""); }));
  record.signal(SIGINT);
  const Output o = record.wait();
  EXPECT_EQ(o.rc, 130);
  EXPECT_TRUE(has(o.err, "session r is left to the master")) << o.err;
  EXPECT_FALSE(fs::exists(dir_ / "r.sbt"));
  a->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return has(command({"sessions", "--json"}).out, "\"state\":\"complete\""); }));
  for (const auto& file : fs::directory_iterator(dir_ / "")) EXPECT_FALSE(has(file.path().string(), ".part"));
}

/// Frames are made of a trace, of which nothing is left if the command is killed meanwhile.
TEST_F(BadDays, AKilledCommandLeavesNothingBesideItsFrames) {
  startMaster();
  auto a = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(connected(1));
  ASSERT_EQ(command({"record", "--name", "r", "-d", "0.3", "-o", dir_ / "r.sbt"}).rc, 0);
  fs::create_directory(dir_ / "out");
  const std::string pipe = dir_ / "out/f.json";  // nobody reads it: the command waits with the trace in its hands
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto recover = std::make_unique<Child>(std::vector<std::string>{TRACESMITH_BIN, "cluster", "recover", "--name", "r",
                                                                  "--export", pipe, "--force", "--master", address()},
                                         environment());
  const std::string waits = "/proc/" + std::to_string(recover->pid()) + "/wchan";
  if (!eventually([&] { return has(test::readFile(waits), "wait_for_partner") || !recover->running(); }))
    GTEST_SKIP() << "this kernel does not say where a process waits: " << test::readFile(waits);
  ASSERT_TRUE(recover->running()) << recover->err();
  kill(recover);
  for (const auto& file : fs::directory_iterator(dir_ / "out")) EXPECT_EQ(file.path(), pipe);
}

/// A file that was renamed has its new name after a power cut only if its folder was synced.
TEST_F(BadDays, NamesAreOnDiskBeforeAnybodyReliesOnThem) {
  const std::string log = dir_ / "names";
  more_environment_ = {{"LD_PRELOAD", std::string(TRACESMITH_BUILD_DIR) + "/lib/libname_log.so"},
                       {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"},
                       {"NAME_LOG", log}};
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  begin("all");
  finish("all");
  ASSERT_EQ(command({"delete", "--name", "all"}).rc, 0);
  std::map<std::string, std::string> open;  // the last name in a folder that was not synced since
  std::set<std::string> seen;
  std::istringstream lines(test::readFile(log));
  for (std::string what, path; lines >> what >> path;) {
    if (what == "sync") {
      open.erase(path);
      continue;
    }
    const fs::path name(path);
    for (const char* file : {"m/master/sessions", "m/master/nodes/alpha/node", "a-alpha/agent/id"})
      if (path.starts_with(dir_ / file)) open[name.parent_path()] = path, seen.insert(file);
  }
  EXPECT_EQ(seen.size(), 3u) << test::readFile(log);
  for (const auto& [folder, name] : open) ADD_FAILURE() << name << " may be gone after a power cut";
}

TEST_F(BadDays, ACopiedDataFolderIsAnotherAgent) {
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  fs::copy(dir_ / "a-alpha", dir_ / "copy", fs::copy_options::recursive);
  agent_data_ = dir_ / "copy";
  auto copy = agent("alpha");
  EXPECT_TRUE(eventually([&] { return has(copy->err(), "is already connected"); })) << copy->err();
  EXPECT_EQ(command({"record", "-o", dir_ / "r.sbt", "-d", "0.2"}).rc, 0);
  // It goes on with the same name after a restart, and so does the other under a name of its own.
  kill(copy);
  copy = agent("beta");
  EXPECT_TRUE(connected(2));
  kill(a);
  agent_data_.clear();
  a = agent("alpha");
  EXPECT_TRUE(connected(2));
}

/// Needs to be root, for a file system of its own.
TEST_F(BadDays, AFullDiskOfTheMasterKeepsNobodyOut) {
  const std::string disk = dir_ / "disk";
  ::mkdir(disk.c_str(), 0700);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  struct Unmount {
    const std::string& path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{disk};
  master_data_ = disk + "/m";
  startMaster();
  auto a = agent("alpha");
  ASSERT_TRUE(connected(1));
  begin("all");
  test::writeFile(disk + "/ballast", std::string(2 << 20, 'x'));
  auto b = agent("beta", {"--sim", "1"});
  EXPECT_TRUE(connected(2)) << b->err();
  EXPECT_TRUE(has(command({"status"}).err, "No space left"));
  fs::remove(disk + "/ballast");
  EXPECT_TRUE(eventually([&] { return fs::exists(disk + "/m/master/nodes/beta/node"); }));
  EXPECT_TRUE(eventually([&] { return !has(command({"status"}).err, "No space left"); }));
  finish("all");
  master_.reset();
}

}  // namespace
}  // namespace tracesmith::cluster
