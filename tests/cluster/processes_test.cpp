// Processes and stacks of a cluster: who asks gets what the nodes see now, and is told which of them did not answer.
#include <unistd.h>

#include "cluster/cluster_fixture.hpp"
#include "support/training_ring.hpp"
#include "support/tree.hpp"

namespace tracesmith::cluster {
namespace {

constexpr const char* kProgram = R"(import sys, time
def work():
    sys.stdout.write('ready'); sys.stdout.flush()
    time.sleep(1000)
work()
)";

class Processes : public ClusterFixture {
 protected:
  void SetUp() override {
    if (test::run({"python3", "--version"}).rc != 0) GTEST_SKIP() << "no Python here";
    test::writeFile(dir_ / "job.py", kProgram);
    job_ = std::make_unique<Child>(std::vector<std::string>{"python3", dir_ / "job.py"},
                                   test::Environment{{"RANK", rank_}});
    ASSERT_TRUE(eventually([&] { return has(job_->out(), "ready"); })) << job_->err();
  }
  /// `tracesmith …` of this user, not of `cluster`.
  Output plain(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), TRACESMITH_BIN);
    return test::runWith(environment(), argv);
  }
  static std::string portOf(const Child& agent) {
    const std::string out = agent.out();
    const size_t at = out.find("127.0.0.1:");
    return at == std::string::npos ? "" : out.substr(at, out.find_first_not_of("0123456789", at + 10) - at);
  }
  // Other tests have jobs on this machine at the same time: theirs are other ranks.
  const std::string rank_ = std::to_string(getpid());
  std::unique_ptr<Child> job_;
};

TEST_F(Processes, AreListedWithTheirNode) {
  startMaster();
  const auto alpha = agent("alpha");
  ASSERT_TRUE(connected(1));
  const std::string pid = std::to_string(job_->pid());
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = command({"ps"}).out;
    return has(out, "alpha") && has(out, pid) && has(out, rank_) && has(out, "job.py");
  })) << out;
  out = command({"list", "--json"}).out;
  EXPECT_TRUE(has(out, R"({"node":"alpha","problem":null,"processes":[)") && has(out, "\"pid\":" + pid)) << out;
}

TEST_F(Processes, OfARankOfANodeAndOfAnAgentAreRead) {
  startMaster();
  const auto alpha = agent("alpha");
  ASSERT_TRUE(connected(1));
  for (const std::string& target : {"rank:" + rank_, std::string("node:alpha"), std::string("all")}) {
    Output o;
    EXPECT_TRUE(eventually([&] {
      o = plain({"backtrace", "-t", target, "--master", address()});
      return has(o.out, "work") && has(o.out, "job.py:4");
    })) << target
        << o.out << o.err;
  }
  const std::string agent_port = portOf(*alpha);
  ASSERT_NE(agent_port, "") << alpha->out();
  const Output direct = plain({"backtrace", "--rank", rank_, "-t", agent_port});
  EXPECT_TRUE(has(direct.out, " on alpha: ") && has(direct.out, "work (" + (dir_ / "job.py") + ":4)"))
      << direct.out << direct.err;
  EXPECT_TRUE(has(plain({"ps", "-t", agent_port}).out, rank_));
}

TEST_F(Processes, WhoCannotAnswerIsNamed) {
  startMaster();
  const auto alpha = agent("alpha");
  auto beta = agent("beta");
  ASSERT_TRUE(connected(2));
  beta->signal(SIGKILL);
  ASSERT_TRUE(connected(1));
  Output o = command({"ps"});
  EXPECT_EQ(o.rc, 0);
  EXPECT_TRUE(has(o.err, "warning: beta: it is not connected")) << o.err;
  EXPECT_TRUE(has(o.out, "alpha")) << o.out;
  o = plain({"backtrace", "-t", "all", "--json", "--master", address()});
  EXPECT_TRUE(has(o.out, R"("problems":[{"node":"beta","problem":"it is not connected"}])")) << o.out;
  alpha->signal(SIGSTOP);
  o = command({"ps"});
  EXPECT_TRUE(has(o.err, "warning: alpha: it did not answer within 5")) << o.err;
  alpha->signal(SIGCONT);
}

TEST_F(Processes, TargetsThatAreNotThereAreOneLine) {
  startMaster();
  EXPECT_TRUE(has(command({"ps"}).err, "the cluster has no nodes"));
  const auto alpha = agent("alpha");
  ASSERT_TRUE(connected(1));
  Output o = plain({"backtrace", "-t", "rank:99", "--master", address()});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: no process of rank 99 in the cluster\n");
  o = plain({"backtrace", "-t", "node:nobody", "--master", address()});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: there is no node nobody\n");
  o = plain({"ps", "-t", "127.0.0.1:" + std::to_string(freePort())});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "cannot reach the agent at 127.0.0.1:")) << o.err;
  for (const std::string wrong : {"rank:x", "rank:-1", "node:a/b", "nonsense"}) {
    o = plain({"backtrace", "-t", wrong});
    EXPECT_EQ(o.rc, 2) << wrong << o.err;
  }
}

TEST_F(Processes, AViewerReadsButStopsNoThread) {
  test::writeFile(dir_ / "tokens", "admin all-you-can-do-is-here\nviewer only-looking-around-here\n");
  test::writeFile(dir_ / "admin", "all-you-can-do-is-here\n");
  test::writeFile(dir_ / "viewer", "only-looking-around-here\n");
  for (const char* file : {"tokens", "admin", "viewer"}) ::chmod((dir_ / file).c_str(), 0600);
  startMaster({"--token-file", dir_ / "tokens"});
  const auto alpha = agent("alpha", {"--token-file", dir_ / "admin"});
  const auto as = [&](const std::string& who, std::vector<std::string> more) {
    more.insert(more.begin(), {"backtrace", "-t", "rank:" + rank_, "--master", address(), "--token-file", dir_ / who});
    return plain(more);
  };
  Output o;
  EXPECT_TRUE(eventually([&] { return has((o = as("viewer", {})).out, "job.py:4"); })) << o.err;
  o = as("viewer", {"--native"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "operator")) << o.err;
  EXPECT_TRUE(has(as("admin", {"--native"}).out, "job.py:4"));
  o = plain({"backtrace", "-t", "rank:" + rank_, "--master", address()});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "token")) << o.err;
}

TEST_F(Processes, SettingsOfProbesAreReadByViewersAndChangedByOperators) {
  test::writeFile(dir_ / "tokens", "admin all-you-can-do-is-here\nviewer only-looking-around-here\n");
  test::writeFile(dir_ / "admin", "all-you-can-do-is-here\n");
  test::writeFile(dir_ / "viewer", "only-looking-around-here\n");
  for (const char* file : {"tokens", "admin", "viewer"}) ::chmod((dir_ / file).c_str(), 0600);
  test::TrainingRing ring(rings() + "/1.ring", 3);
  startMaster({"--token-file", dir_ / "tokens"});
  const auto alpha = agent("alpha", {"--token-file", dir_ / "admin"});
  const auto as = [&](const std::string& who, std::vector<std::string> more) {
    more.insert(more.begin(), {"config", "-t", "rank:3", "--master", address(), "--token-file", dir_ / who});
    return plain(more);
  };
  Output o;
  EXPECT_TRUE(eventually([&] { return (o = as("viewer", {"mode"})).out == "light\n"; })) << o.out << o.err;
  o = as("viewer", {"mode=watch"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "operator")) << o.err;
  EXPECT_EQ(ring.writer().header().mode.load(), 0u);
  o = as("admin", {"mode=watch"});
  EXPECT_TRUE(has(o.out, " on alpha, rank 3: mode=watch, was light\n")) << o.out << o.err;
  EXPECT_EQ(ring.writer().header().mode.load(), ring::kWatch);
  EXPECT_TRUE(
      has(test::readFile(dir_ / "m/master/audit.log"), R"("action":"config","what":"mode=watch: rank 3","ok":true)"))
      << test::readFile(dir_ / "m/master/audit.log");
  o = plain({"config", "-t", portOf(*alpha), "--token-file", dir_ / "admin", "--json"});
  EXPECT_TRUE(has(o.out, R"({"node":"alpha","pid":)") && has(o.out, R"("mode":"watch")")) << o.out << o.err;
}

class Actions : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    if (IsSkipped()) return;
    test::writeFile(dir_ / "tokens",
                    "admin all-you-can-do-is-here\noperator starting-and-stopping\nviewer only-looking-around-here\n");
    test::writeFile(dir_ / "admin", "all-you-can-do-is-here\n");
    test::writeFile(dir_ / "operator", "starting-and-stopping\n");
    test::writeFile(dir_ / "viewer", "only-looking-around-here\n");
    for (const char* file : {"tokens", "admin", "operator", "viewer"}) ::chmod((dir_ / file).c_str(), 0600);
    startMaster({"--token-file", dir_ / "tokens"});
  }
  std::unique_ptr<Child> alpha(std::vector<std::string> more) {
    more.insert(more.end(), {"--token-file", dir_ / "admin"});
    auto child = agent("alpha", more);
    EXPECT_TRUE(eventually([&] { return has(as("viewer", {"backtrace", "-t", "rank:" + rank_}).out, "job.py:4"); }));
    return child;
  }
  Output as(const std::string& who, std::vector<std::string> argv) {
    argv.insert(argv.end(), {"--master", address(), "--token-file", dir_ / who});
    return plain(argv);
  }
};

TEST_F(Actions, CodeAndVariablesAreOffUnlessTheAgentAllowsThem) {
  const auto node = alpha({});
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"eval", "-t", "rank:" + rank_, "1 + 1"}, {"attach", "-t", "rank:" + rank_}}) {
    const Output o = as("admin", what);
    EXPECT_EQ(o.rc, 1);
    EXPECT_TRUE(has(o.err, "alpha: its agent does not run code") && has(o.err, "--allow-eval")) << o.err;
  }
  const Output o = as("admin", {"backtrace", "--locals", "-t", "rank:" + rank_});
  EXPECT_TRUE(has(o.err, "--allow-eval")) << o.err;
  EXPECT_TRUE(job_->running());
}

TEST_F(Actions, TakeTheRoleAdminAndAreAudited) {
  const auto node = alpha({"--allow-eval"});
  for (const std::vector<std::string>& what : {std::vector<std::string>{"eval", "-t", "rank:" + rank_, "1 + 1"},
                                               {"attach", "-t", "rank:" + rank_},
                                               {"detach", "-t", "rank:" + rank_},
                                               {"backtrace", "--locals", "-t", "rank:" + rank_}}) {
    const Output o = as("operator", what);
    EXPECT_EQ(o.rc, 1);
    EXPECT_TRUE(has(o.err, "admin")) << o.err;
  }
  Output o = as("admin", {"backtrace", "--locals", "-t", "rank:" + rank_});
  EXPECT_TRUE(has(o.out, "work (")) << o.out << o.err;
  o = as("admin", {"eval", "-t", "rank:" + rank_, "import os; os.getpid()"});
  if (has(o.err, "sanitizer") || has(o.err, "libdw")) GTEST_SKIP() << o.err;
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "process " + std::to_string(job_->pid()) + " on alpha, rank " + rank_ + ":\n" +
                       std::to_string(job_->pid()) + "\n");
  // The agent itself can be asked, too, about one process.
  o = plain({"eval", "-t", portOf(*node), "--token-file", dir_ / "admin", std::to_string(job_->pid()), "2 * 21"});
  EXPECT_TRUE(has(o.out, "\n42\n")) << o.out << o.err;
  o = plain({"eval", "-t", portOf(*node), "--token-file", dir_ / "viewer", std::to_string(job_->pid()), "2 * 21"});
  EXPECT_TRUE(o.rc == 1 && has(o.err, "token")) << o.err;  // it knows its own token only
  for (const char* log : {"m/master/audit.log", "a-alpha/agent/audit.log"}) {
    const std::string text = test::readFile(dir_ / log);
    EXPECT_TRUE(has(text, R"("action":"eval","what":"import os; os.getpid(): rank )" + rank_ + R"(","ok":true)"))
        << log << text;
  }
  EXPECT_TRUE(job_->running());
}

TEST_F(Actions, OperatorsSampleOtherMachines) {
  const auto node = alpha({});
  EXPECT_TRUE(has(as("viewer", {"sample", "-t", "rank:" + rank_, "-d", "0.2"}).err, "operator"));
  Output o = as("operator", {"sample", "-t", "rank:" + rank_, "-d", "0.3", "--idle", "-o", dir_ / "x.folded"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(test::readFile(dir_ / "x.folded"), ";work (" + (dir_ / "job.py") + ") "))
      << test::readFile(dir_ / "x.folded");
  o = as("operator", {"sample", "-t", "rank:" + rank_, "-d", "0.2", "-o", dir_ / "x.sbt"});
  EXPECT_EQ(o.rc, 2);
  EXPECT_EQ(as("operator", {"sample", "-t", "all", "-d", "61"}).rc, 2);
}

TEST_F(Processes, RdmaPortsOfAllNodes) {
  test::makeTree("host", dir_ / "root");
  startMaster();
  more_environment_ = {{"TRACESMITH_ROOT", dir_ / "root"}};
  const auto alpha = agent("alpha");
  more_environment_.clear();
  ASSERT_TRUE(connected(1));
  Output o = command({"rdma"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "alpha  mlx5_0:1  up     InfiniBand     400  0 B/s")) << o.out;
  EXPECT_TRUE(
      has(command({"rdma", "--json", "mlx5_1"}).out, R"({"node":"alpha","problem":null,"ports":[{"name":"mlx5_1:1",)"));
  o = plain({"rdma", "-t", "rank:" + rank_, "--master", address()});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: no RDMA port is used by rank " + rank_ + "\n");
}

}  // namespace
}  // namespace tracesmith::cluster
