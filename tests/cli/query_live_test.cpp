// `tracesmith query -t`: SQL over what runs now.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "support/child.hpp"
#include "support/process.hpp"

namespace tracesmith::cli {
namespace {

using test::Child;
using test::eventually;
using test::Output;

constexpr const char* kProgram = R"(import sys, threading, time
def wait_for_work():
    time.sleep(1000)
def down(n):
    if n == 0:
        sys.stdout.write('ready'); sys.stdout.flush()
        wait_for_work()
    down(n - 1)
threading.Thread(target=wait_for_work, daemon=True).start()
down(5)
)";

class QueryLive : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TRACESMITH_HAS_QUERY) GTEST_SKIP() << "built without SQL";
    if (test::run({"python3", "--version"}).rc != 0) GTEST_SKIP() << "no Python here";
    test::writeFile(dir_ / "job.py", kProgram);
    ::mkdir((dir_ / "rings").c_str(), 0700);
    job_ = std::make_unique<Child>(std::vector<std::string>{"python3", dir_ / "job.py"},
                                   test::Environment{{"RANK", "3"}, {"HF_TOKEN", "do-not-show-me"}});
    ASSERT_TRUE(eventually([&] { return job_->out().find("ready") != std::string::npos; })) << job_->err();
  }
  Output query(std::vector<std::string> argv) const {
    argv.insert(argv.begin(), {TRACESMITH_BIN, "query"});
    return test::runWith({{"TRACESMITH_DIR", dir_ / "rings"}}, argv);
  }
  Output ask(const std::string& sql) const {
    return query({"-t", std::to_string(job_->pid()), "--format", "csv", sql});
  }
  test::TempDir dir_;
  std::unique_ptr<Child> job_;
};

TEST_F(QueryLive, ProcessesThreadsAndStacks) {
  const std::string pid = std::to_string(job_->pid());
  EXPECT_EQ(ask("SELECT pid, rank, python, gpus, node IS NULL AS here FROM live.processes").out,
            "pid,rank,python,gpus,here\n" + pid + ",3,true,[],true\n");
  EXPECT_EQ(ask("SELECT pid, rank, count(*) AS n FROM live.threads WHERE python GROUP BY ALL").out,
            "pid,rank,n\n" + pid + ",3,2\n");
  // The frames of a recursion are told once, with their number.
  const Output stacks = ask(
      "SELECT thread, frame, function, line, more FROM live.stacks WHERE thread = 0 AND function IN ('wait_for_work', "
      "'down') ORDER BY ALL");
  EXPECT_EQ(stacks.out, "thread,frame,function,line,more\n0,0,wait_for_work,3,0\n0,1,down,7,0\n0,2,down,8,4\n")
      << stacks.err;
  // Threads and frames are of the same moment and can be joined.
  EXPECT_EQ(
      ask("SELECT bool_and(t.depth = s.n) AS ok FROM live.threads t JOIN (SELECT pid, tid, sum(1 + more) AS n FROM "
          "live.stacks GROUP BY ALL) s USING (pid, tid)")
          .out,
      "ok\ntrue\n");
}

TEST_F(QueryLive, EnvironmentsHaveNoSecrets) {
  EXPECT_EQ(ask("SELECT name, value, masked FROM live.env WHERE name IN ('RANK', 'HF_TOKEN') ORDER BY 1").out,
            "name,value,masked\nHF_TOKEN,***,true\nRANK,3,false\n");
  EXPECT_EQ(ask("SELECT count(*) AS n FROM live.env WHERE value LIKE '%do-not%'").out, "n\n0\n");
}

TEST_F(QueryLive, StandsBesideRecordedTables) {
  // What the rings of this machine hold.
  Child simulated({TRACESMITH_BIN, "synth", "--live", "--ranks", "2"}, {{"TRACESMITH_DIR", dir_ / "rings"}});
  Output o;
  EXPECT_TRUE(eventually([&] {
    o = query({"--format", "csv", "-t", "here", "SELECT count(*) > 0 AS some FROM events"});
    return o.out == "some\ntrue\n" || o.rc != 0;
  })) << o.out
      << o.err << simulated.err();
  EXPECT_EQ(o.rc, 0) << o.err;
  // A trace stands in their place.
  ASSERT_EQ(test::tracesmith({"synth", "-o", dir_ / "t.sbt", "--events", "2000", "--ranks", "4"}).rc, 0);
  o = query({"-t", std::to_string(job_->pid()), "--format", "csv", dir_ / "t.sbt",
             "SELECT p.rank, count(*) > 10 AS some FROM live.processes p JOIN events e USING (rank) GROUP BY ALL"});
  EXPECT_EQ(o.out, "rank,some\n3,true\n") << o.err;
}

TEST_F(QueryLive, WhatIsAskedWronglyIsOneLine) {
  const Output gone = query({"-t", "999999999", "SELECT 1"});
  EXPECT_EQ(gone.rc, 1);
  EXPECT_EQ(gone.err, "tracesmith: there is no process 999999999\n");
  EXPECT_EQ(query({"-t", "nonsense", "SELECT 1"}).rc, 2);
  EXPECT_EQ(query({}).rc, 2);
  const Output nodes = ask("SELECT * FROM live.nodes");
  EXPECT_EQ(nodes.rc, 1);
  EXPECT_NE(nodes.err.find("live.nodes needs a master: use -t all"), std::string::npos) << nodes.err;
  EXPECT_EQ(ask("EXPLAIN SELECT * FROM live.nodes").rc, 0) << "nobody is asked";
  const Output tables = ask("SELECT table_name FROM information_schema.tables WHERE table_schema = 'live' ORDER BY 1");
  EXPECT_EQ(tables.out, "table_name\nenv\ninflight\nnodes\nprocesses\nstacks\nthreads\n") << tables.err;
}

}  // namespace
}  // namespace tracesmith::cli
