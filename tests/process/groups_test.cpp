// Processes at the same place are shown together.
#include "process/groups.hpp"
#include "pythons.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

Frame frame(const std::string& function, const std::string& file, int64_t line) {
  Frame f;
  f.python = true;
  f.function = function;
  f.file = file;
  f.line = line;
  return f;
}

Stacks process(pid_t pid, std::vector<Frame> frames) {
  Stacks s;
  s.pid = pid;
  ThreadStack t;
  t.python = true;
  t.frames = std::move(frames);
  s.threads.push_back(std::move(t));
  return s;
}

const char* kTorch = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";

TEST(Groups, AreNamedByTheFunctionThatTheProgramCalled) {
  const Frame main = frame("<module>", "/job/trainer.py", 300), step = frame("Trainer.step", "/job/trainer.py", 212);
  std::vector<Stacks> all;
  for (pid_t pid = 1; pid <= 3; ++pid)
    all.push_back(
        process(pid, {frame("all_reduce", kTorch, 1300 + pid),  // inside, they may be at different lines
                      frame("wrapper", "/usr/lib/python3/dist-packages/torch/c10d_logger.py", 50), step, main}));
  all.push_back(
      process(4, {frame("select", "/usr/lib/python3.11/selectors.py", 415),
                  frame("DataLoader.__next__", "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", 630),
                  frame("Trainer.step", "/job/trainer.py", 205), main}));
  all.push_back(process(5, {frame("Trainer.log", "/job/trainer.py", 40), main}));
  all.push_back(process(6, {}));
  const std::vector<StackGroup> groups = groupStacks(all);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].members, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(groups[0].what, "all_reduce");
  EXPECT_EQ(groups[0].place, "trainer.py:212");
  EXPECT_FALSE(groups[0].own);
  std::map<std::string, std::string> others;
  for (size_t i = 1; i < groups.size(); ++i) others[groups[i].what] = groups[i].place;
  EXPECT_EQ(others,
            (std::map<std::string, std::string>{
                {"DataLoader.__next__", "trainer.py:205"}, {"Trainer.log", "trainer.py:40"}, {"no frames", ""}}));
}

TEST(Groups, OurOwnHooksAreNotNamed) {
  const Frame hook = frame("Collectives.around.<locals>.hooked", "/opt/tracesmith_hooks/collectives.py", 190);
  const std::vector<Stacks> all = {
      process(1, {frame("hooked_wait", "/opt/tracesmith_hooks/collectives.py", 156), frame("all_reduce", kTorch, 1541),
                  hook, frame("<module>", "/job/train.py", 14)})};
  EXPECT_EQ(whereText(groupStacks(all).at(0)), "all_reduce, called from train.py:14");
}

TEST(Groups, RanksOfRealProcesses) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  TempDir dir;
  writeFile(dir / "train.py",
            "import sys, threading, time\n"
            "def wait(): threading.Event().wait()\n"
            "def load(): time.sleep(1000)\n"
            "sys.stdout.write('ready'); sys.stdout.flush()\n"
            "load() if sys.argv[1] == 'load' else wait()\n");
  std::vector<std::unique_ptr<Child>> ranks;
  std::vector<std::string> command = {"backtrace"};
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::make_unique<Child>(
        std::vector<std::string>{pythons().begin()->second, dir / "train.py", rank == 2 ? "load" : "wait"},
        Environment{{"RANK", std::to_string(rank)}}));
    command.push_back(std::to_string(ranks.back()->pid()));
  }
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = tracesmith(command).out;
    return out.find("3 ranks (0, 1, 3) in ") == 0 && out.find("wait, called from train.py:2\n") != std::string::npos &&
           out.find("\nRank 2 in load, train.py:3\n") != std::string::npos;
  })) << out;
  const Output everything = tracesmith({"backtrace", "--all", "--json"});
  EXPECT_EQ(everything.rc, 0) << everything.err;
  EXPECT_NE(everything.out.find("\"pid\":" + command[1] + ","), std::string::npos);
  EXPECT_EQ(tracesmith({"backtrace"}).rc, 2);
  EXPECT_EQ(tracesmith({"backtrace", "--rank", "987654"}).rc, 1);
}

TEST(Groups, OfSeveralJobsAreKeptApart) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const std::string rank = std::to_string(::getpid());  // other tests have jobs on this machine at the same time
  std::vector<std::unique_ptr<Child>> ranks;
  for (const char* job : {"one", "two"}) {
    ranks.push_back(std::make_unique<Child>(
        std::vector<std::string>{pythons().begin()->second, "-c",
                                 "import time\ndef work():\n  print('ready', flush=True)\n  time.sleep(1000)\nwork()"},
        Environment{{"RANK", rank}, {"SLURM_JOB_ID", job}}));
    ASSERT_TRUE(eventually([&] { return ranks.back()->out().find("ready") != std::string::npos; }));
  }
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  Output o;
  EXPECT_TRUE(eventually([&] {
    o = tracesmith({"backtrace", "--rank", rank});
    return has(o.out, "Rank " + rank + " of job one in work") && has(o.out, "Rank " + rank + " of job two in work");
  })) << o.out
      << o.err;
  EXPECT_TRUE(has(o.out, "note: these are processes of 2 jobs: one and two; --job shows those of one\n")) << o.out;
  o = tracesmith({"backtrace", "--rank", rank, "--job", "two"});
  EXPECT_TRUE(has(o.out, "Process " + std::to_string(ranks[1]->pid()) + ": ") && has(o.out, ", job two, ")) << o.out;
  EXPECT_FALSE(has(o.out, "note:")) << o.out;
  o = tracesmith({"backtrace", "--rank", rank, "--job", "three"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: no process of rank " + rank +
                       " of job three on this machine; there are those of one and two\n");
}

}  // namespace
}  // namespace tracesmith::test
