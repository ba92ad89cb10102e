// `tracesmith sample`: what it prints, writes and refuses.
#include <signal.h>

#include "process/pythons.hpp"
#include "support/child.hpp"

namespace tracesmith::test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class SampleTest : public testing::Test {
 protected:
  void SetUp() override {
    if (pythons().empty()) GTEST_SKIP() << "no Python here";
  }
  std::unique_ptr<Child> busy(int rank) {
    return startPython(pythons().rbegin()->second,
                       "def busy(): \n  while True: pass\n" + std::string(kReady) + "busy()\n",
                       {{"RANK", std::to_string(rank)}});
  }
  Output sample(std::vector<std::string> args) {
    args.insert(args.begin(), "sample");
    return tracesmith(args);
  }
  TempDir dir_;
};

TEST_F(SampleTest, ASummaryNamesTheFunction) {
  const auto child = busy(5);
  const Output out = sample({std::to_string(child->pid()), "-d", "0.3"});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(has(out.out, "Sampled rank 5, process " + std::to_string(child->pid()))) << out.out;
  EXPECT_TRUE(has(out.out, "On CPU") && has(out.out, "busy (<string>)")) << out.out;
  EXPECT_TRUE(has(out.out, "-o flame.svg")) << out.out;
  EXPECT_EQ(out.err, "");
}

TEST_F(SampleTest, ATraceAndWhatIsDrawnFromIt) {
  const auto first = busy(0), second = busy(1);
  const std::string file = dir_ / "s.sbt";
  const Output out =
      sample({std::to_string(first->pid()), std::to_string(second->pid()), "-d", "0.3", "-o", file, "--json"});
  ASSERT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(has(out.out, "\"function\":\"busy (<string>)\"")) << out.out;
  EXPECT_TRUE(has(out.out, "\"missed\":")) << out.out;
  EXPECT_TRUE(has(tracesmith({"info", file}).out, "stacks"));
  if (TRACESMITH_HAS_QUERY) {
    const Output rows =
        tracesmith({"query", file, "--format", "csv",
                    "SELECT DISTINCT rank, state, stack LIKE '%busy (<string>:%)' AS busy FROM stacks WHERE "
                    "samples > 0 AND dur >= 0 AND state = 'on-CPU' ORDER BY rank"});
    EXPECT_TRUE(has(rows.out, "0,on-CPU,true\n") && has(rows.out, "1,on-CPU,true\n")) << rows.out << rows.err;
  }
  EXPECT_EQ(sample({"--from", file, "--rank", "1", "-o", dir_ / "one.folded"}).rc, 0);
  EXPECT_TRUE(has(readFile(dir_ / "one.folded"), "<module> (<string>);busy (<string>) "));
  EXPECT_EQ(sample({"--from", file, "--diff", "0", "1", "-o", dir_ / "diff.svg"}).rc, 0);
  EXPECT_TRUE(has(readFile(dir_ / "diff.svg"), "data-diff=\"1\""));
  EXPECT_EQ(sample({"--from", file, "--per-rank", "-o", dir_ / "both.speedscope.json"}).rc, 0);
  EXPECT_TRUE(has(readFile(dir_ / "both.speedscope.json"), "\"name\":\"rank 1\""));
  const Output none = sample({"--from", file, "--rank", "9"});
  EXPECT_EQ(none.rc, 1);
  EXPECT_EQ(none.err, "tracesmith: there are no samples of rank 9\n");
  EXPECT_EQ(sample({std::to_string(first->pid()), "-d", "0.1", "-o", file}).rc, 2) << "a recording is not overwritten";
}

TEST_F(SampleTest, CtrlCEndsItAndWrites) {
  const auto child = busy(0);
  const std::string file = dir_ / "s.sbt";
  Child sampling({TRACESMITH_BIN, "sample", std::to_string(child->pid()), "-d", "1000", "-o", file});
  ASSERT_TRUE(eventually([&] { return exists(file); })) << sampling.err();
  sampling.signal(SIGINT);
  const Output out = sampling.wait();
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(has(out.out, "wrote " + file)) << out.out;
  EXPECT_EQ(sample({"--from", file}).rc, 0);
}

TEST_F(SampleTest, AProcessThatEndsBeforeTheTimeIsOver) {
  const auto child =
      startPython(pythons().rbegin()->second, "import time\n" + std::string(kReady) + "time.sleep(1)\n", {});
  const Output out = sample({std::to_string(child->pid()), "-d", "100"});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(has(out.out, "ended meanwhile")) << out.out;
}

TEST_F(SampleTest, ByRank) {
  const auto child = busy(77);
  const Output out = sample({"--rank", "77", "-d", "0.1"});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(has(out.out, "Sampled rank 77")) << out.out;
  const Output alone = sample({"--diff", "77", "4711", "-d", "100"});
  EXPECT_EQ(alone.rc, 1);
  EXPECT_EQ(alone.err, "tracesmith: no process of rank 4711 to compare on this machine\n");
  const Output none = sample({"--rank", "4711", "-d", "0.1"});
  EXPECT_EQ(none.rc, 1);
  EXPECT_TRUE(has(none.err, "tracesmith: no process of rank 4711 on this machine")) << none.err;
}

TEST_F(SampleTest, StacksBesideARecording) {
  const std::string file = dir_ / "run.sbt";
  Child recording({TRACESMITH_BIN, "run", "--stacks", "200", "--no-telemetry", "-o", file, "--",
                   pythons().rbegin()->second, "-c", "def busy():\n  while True: pass\nbusy()\n"});
  EXPECT_TRUE(eventually([&] { return sample({"--from", file}).rc == 0; })) << recording.err();
  recording.signal(SIGTERM);
  (void)recording.wait();
  const Output out = sample({"--from", file});
  EXPECT_TRUE(has(out.out, "busy (<string>)")) << out.out << out.err;
  EXPECT_EQ(tracesmith({"run", "--stacks", "1", "--flight", "10", "-o", file, "--", "true"}).rc, 2);
}

TEST(SampleUsage, WrongUsageIsOneLine) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"sample"},
                                             {"sample", "x"},
                                             {"sample", "1", "--rate", "0"},
                                             {"sample", "1", "-o", "a.png"},
                                             {"sample", "-t", "what"},
                                             {"sample", "--diff", "1", "1"},
                                             {"sample", "--from", "a", "--all"}}) {
    const Output out = tracesmith(args);
    EXPECT_EQ(out.rc, 2) << out.err;
    EXPECT_EQ(std::count(out.err.begin(), out.err.end(), '\n'), 1) << out.err;
  }
  EXPECT_EQ(tracesmith({"sample", "4194304"}).err, "tracesmith: no process 4194304\n");
  const Output missing = tracesmith({"sample", "--from", "/nonexistent/a.sbt"});
  EXPECT_EQ(missing.rc, 1);
}

}  // namespace
}  // namespace tracesmith::test
