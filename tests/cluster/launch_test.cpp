// cluster launch: a job on two nodes of this machine, through their agents.
#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class Launching : public ClusterFixture {
 protected:
  void start(const std::vector<std::string>& more = {"--allow-launch"}) {
    startMaster();
    a_ = agent("a", more);
    b_ = agent("b", more);
    ASSERT_TRUE(connected(2));
  }
  std::vector<std::string> words(const std::string& script, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = {TRACESMITH_BIN, "cluster", "launch", "--master", address(), "--nproc", "2"};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.insert(argv.end(), {"--", "sh", "-c", script});
    return argv;
  }
  Output launch(const std::string& script, const std::vector<std::string>& more = {}) const {
    return test::runWith(environment(), words(script, more));
  }
  /// Every rank writes its process id here.
  std::string pidFile(int rank) const { return dir_ / ("pid-" + std::to_string(rank)); }
  std::string notePid() const {
    return "echo $$ > " + (dir_ / "pid-$RANK.new") + "; mv " + (dir_ / "pid-$RANK.new") + " " + (dir_ / "pid-$RANK") +
           "; ";
  }
  bool allRun() const {
    return eventually([&] {
      for (int r = 0; r < 4; ++r)
        if (!test::exists(pidFile(r))) return false;
      return true;
    });
  }
  bool noneRuns() const {
    return eventually([&] {
      for (int r = 0; r < 4; ++r)
        if (::kill(std::stoi(test::readFile(pidFile(r))), 0) == 0) return false;
      return true;
    });
  }
  std::unique_ptr<Child> a_, b_;
};

TEST_F(Launching, RanksHaveTheirPlacesAndTheirOutputIsPrefixed) {
  start();
  const Output o = launch(
      "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $NODE_RANK, "
      "$MASTER_ADDR:$MASTER_PORT, "
      "$EXTRA, $TRACESMITH_DIR; echo trouble >&2",
      {"--master-port", "12345", "--env", "EXTRA=more", "-o", dir_ / "logs"});
  EXPECT_EQ(o.rc, 0) << o.err;
  for (int r = 0; r < 4; ++r) {
    const std::string rank = std::to_string(r), local = std::to_string(r % 2), node = std::to_string(r / 2);
    const std::string line =
        "rank " + rank + " of 4, local " + local + " of 2, node " + node + ", 127.0.0.1:12345, more, " + rings() + "\n";
    EXPECT_TRUE(has(o.out, "[rank " + rank + "] " + line)) << o.out;
    EXPECT_TRUE(has(o.err, "[rank " + rank + "] trouble\n")) << o.err;
    EXPECT_EQ(test::readFile(dir_ / ("logs/rank-" + rank + ".out")), line);
    EXPECT_EQ(test::readFile(dir_ / ("logs/rank-" + rank + ".err")), "trouble\n");
  }
}

TEST_F(Launching, RanksArePlacedOnGpus) {
  start({"--allow-launch", "--sim", "4"});
  const Output o = launch("echo $LOCAL_RANK of $CUDA_VISIBLE_DEVICES", {"--tensor", "2", "--data", "2"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "[rank 3] 1 of 0,1\n")) << o.out;
  EXPECT_TRUE(has(launch("true", {"--tensor", "3"}).err, "the groups are for 3 ranks, and the nodes run 4"));
}

TEST_F(Launching, OneRankThatFailsEndsAll) {
  start();
  const Output o = launch(notePid() + "if [ $RANK = 2 ]; then exit 7; fi; sleep 1000");
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "rank 2 on node b exited with code 7")) << o.err;
  EXPECT_TRUE(has(o.err, "3 other ranks were ended")) << o.err;
}

TEST_F(Launching, ARankThatIgnoresSigtermIsKilled) {
  start();
  const std::string ready = "[ -e " + pidFile(1) + " ]";
  const Output o =
      launch("if [ $RANK = 0 ]; then until " + ready + "; do sleep 0.02; done; exit 1; fi; trap '' TERM; " + notePid() +
                 "while :; do sleep 1000; done",
             {"--grace", "0.1", "--json"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.out, R"({"rank":1,"node":"a","code":null,"signal":9,"terminated":true,"problem":null})")) << o.out;
  EXPECT_TRUE(has(o.out, R"("first_failure":{"rank":0,"node":"a","code":1)")) << o.out;
}

TEST_F(Launching, CtrlCEndsAllRanks) {
  start();
  Child job(words(notePid() + "sleep 1000"), environment());
  ASSERT_TRUE(allRun()) << job.err();
  job.signal(SIGINT);
  const Output o = job.wait();
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "the job was ended")) << o.err;
  EXPECT_TRUE(noneRuns());
}

TEST_F(Launching, RanksEndWithTheLauncherTheMasterAndTheAgent) {
  start();
  const std::string script = notePid() + "sleep 1000 & wait";
  for (int who = 0; who < 3; ++who) {
    for (int r = 0; r < 4; ++r) ::unlink(pidFile(r).c_str());
    Child job(words(script), environment());
    ASSERT_TRUE(allRun()) << job.err();
    if (who == 0) job.signal(SIGKILL);
    if (who == 1) {
      a_->signal(SIGKILL);
      EXPECT_TRUE(has(job.wait().err, "the connection to its agent broke"));
    }
    if (who == 2) master_->signal(SIGKILL);
    EXPECT_TRUE(noneRuns()) << who;
    if (who == 1) {
      a_ = agent("a", {"--allow-launch"});
      ASSERT_TRUE(connected(2));
    }
  }
}

TEST_F(Launching, ACommandThatIsNotThereIsTold) {
  start();
  const Output o = command({"launch"}, {"--nproc", "1", "--", "/no/such/program"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "it could not be started: No such file or directory")) << o.err;
}

TEST_F(Launching, AgentsThatDoNotAllowItAreRefused) {
  start({});
  const Output o = launch("true");
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "node a does not let anybody start jobs: start its agent with --allow-launch")) << o.err;
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_TRUE(has(launch("true", {"--nodes", "a,nobody"}).err, "node a does not")) << o.err;
}

TEST_F(Launching, OnlyAnAdminMay) {
  test::writeFile(dir_ / "tokens", "operator operator-0123456789\nadmin admin-0123456789\n");
  ::chmod((dir_ / "tokens").c_str(), 0600);
  startMaster({"--token-file", dir_ / "tokens"});
  a_ = agent("a", {"--allow-launch", "--token-file", dir_ / "tokens"});
  const Output no = launch("true", {"--token", "operator-0123456789"});
  EXPECT_EQ(no.rc, 1);
  EXPECT_TRUE(has(no.err, "admin")) << no.err;
  EXPECT_TRUE(eventually([&] { return launch("true", {"--token", "admin-0123456789"}).rc == 0; })) << a_->err();
  EXPECT_TRUE(has(test::readFile(dir_ / "m/master/audit.log"), "launch"));
}

}  // namespace
}  // namespace tracesmith::cluster
