// A real torch job over gloo that hangs in different ways at once: the line of each rank is named from outside, for one
// who asks about processes and for one who asks why the job stands still.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "cluster/cluster_fixture.hpp"
#include "support/child.hpp"

namespace tracesmith::test {
namespace {

constexpr const char* kProgram = R"(import ctypes, sys, time
import torch
import torch.distributed as dist
rank, last, way = int(sys.argv[1]), int(sys.argv[3]), sys.argv[4]
def in_python():
    time.sleep(1000)
def in_c():
    ctypes.PyDLL(None).sleep(1000)
def busy():
    while True: pass
def another():
    dist.broadcast(torch.ones(8), 0)
def uninterruptible():
    libc = ctypes.CDLL(None)
    if libc.vfork() == 0:
        libc.prctl(1, 9)
        libc.sleep(1000)
def after():
    time.sleep(1000)
dist.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=rank, world_size=4)
for step in range(last + 1):
    if way == 'after' and step == 1: continue
    time.sleep(0.05)
    if step == last:
        sys.stdout.write('hangs'); sys.stdout.flush()
        if way not in ('waits', 'after'): globals()[way]()
    dist.all_reduce(torch.ones(8))
globals()[way]()
)";

const char* kPython = "/usr/bin/python3";  // torch belongs to it, whichever comes first on the path

const std::vector<std::string> kRecorded = {TRACESMITH_BIN, "run", "--flight", "30", "--"},
                               kDifferent = {"waits", "in_python", "in_c", "busy"};

class HangingRanks : public cluster::ClusterFixture {
 protected:
  void SetUp() override {
    if (run({kPython, "-c", "from torch.distributed import ProcessGroupGloo"}).rc != 0)
      GTEST_SKIP() << "torch with gloo is missing: scripts/setup test installs python3-torch";
    writeFile(dir_ / "train.py", kProgram);
  }
  /// Four ranks that hang in step `last`, each in its way: it waits for the others, it is in one of the program's
  /// functions, or it has left an operation out and is after the last.
  void start(const std::string& last, const std::vector<std::string>& ways,
             const std::vector<std::string>& under = {}) {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string number = std::to_string(rank);
      std::vector<std::string> argv = under;
      argv.insert(argv.end(),
                  {kPython, dir_ / "train.py", number, dir_ / "meeting", last, ways[static_cast<size_t>(rank)]});
      Environment all = environment();
      all.insert(all.end(), {{"RANK", number}, {"WORLD_SIZE", "4"}, {"OMP_NUM_THREADS", "1"}, {"SLURM_JOB_ID", "7"}});
      ranks_.push_back(std::make_unique<Child>(argv, all));
    }
  }
  void waitUntilTheyHang() {
    for (const auto& rank : ranks_) {  // torch takes long to load where others compute
      const auto hangs = [&] { return has(rank->out(), "hangs") || !rank->running(); };
      ASSERT_TRUE(eventually(hangs) || eventually(hangs)) << rank->err();
      ASSERT_TRUE(rank->running()) << rank->err();
    }
  }
  std::vector<std::unique_ptr<Child>> ranks_;
};

TEST_F(HangingRanks, TheLineOfEachIsNamedByTheHangVerdict) {
  startMaster();
  const auto agent = this->agent("alpha");
  // Another job has a rank 1 on this machine, too: it is not the one that is meant.
  const Child other({"python3", "-c", "import time\ndef elsewhere(): time.sleep(1000)\nelsewhere()"}, {{"RANK", "1"}});
  start("30", kDifferent, kRecorded);
  ASSERT_NO_FATAL_FAILURE(waitUntilTheyHang());
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + command({"hang"}).out;
    return has(out, "\nhang: rank 1 on alpha, rank 2 on alpha, rank 3 on alpha hold up the job") &&
           has(out, "\nRank 1 in in_python, train.py:6\n") && has(out, "\nRank 2 in in_c, train.py:8\n") &&
           has(out, "\nRank 3 in busy, train.py:10\n");
  })) << out;
  const std::string json = command({"hang", "--json"}).out;
  EXPECT_TRUE(has(json, R"("where":"in_python, train.py:6","stack":{"node":"alpha","pid":)")) << json;
  EXPECT_TRUE(has(json, ". Rank 1 is in in_python, train.py:6\"}")) << json;  // the alert
  // A session that begins in the past has these stacks, so whoever reads it later sees them.
  ASSERT_EQ(command({"record", "--name", "late", "--last", "25", "-d", "1", "-o", dir_ / "late.sbt"}).rc, 0);
  const Output later = test::runWith(environment(), {TRACESMITH_BIN, "analyze", dir_ / "late.sbt"});
  EXPECT_TRUE(has(later.out, "the job hangs")) << later.out << later.err;
  EXPECT_TRUE(has(later.out, "last seen: rank 1: in_python (train.py:6), called from <module> (train.py:"))
      << later.out;
  EXPECT_TRUE(has(later.out, "last seen: rank 2: in_c (train.py:8)")) << later.out;
  // The rank that waits is named, too, by who asks for all.
  const Output all = test::runWith(environment(), {TRACESMITH_BIN, "backtrace", "-t", "all", "--master", address()});
  EXPECT_TRUE(has(all.out, "Rank 0 in all_reduce, called from train.py:27\n")) << all.out << all.err;
  const Output one = test::runWith(environment(), {TRACESMITH_BIN, "backtrace", "-t", "rank:2", "--master", address()});
  EXPECT_TRUE(has(one.out, "holds the GIL\n  in_c (")) << one.out << one.err;
  const std::string listed = command({"ps", "--json"}).out;
  EXPECT_TRUE(has(listed, R"("rank":3,)") && has(listed, R"("probe":"watch")") && has(listed, R"("job":"7")"))
      << listed;
}

TEST_F(HangingRanks, ARankThatCallsAnotherOperationIsNamedWithItsLine) {
  startMaster();
  const auto agent = this->agent("alpha");
  start("20", {"waits", "another", "waits", "waits"}, kRecorded);
  ASSERT_NO_FATAL_FAILURE(waitUntilTheyHang());
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + command({"hang"}).out;
    return has(out, "\nhang: ranks wait for each other: rank 1 on alpha: it is in broadcast 20 of gloo 0 (") &&
           has(out, "\nRank 1 in broadcast, called from train.py:12\n");
  })) << out;
}

TEST_F(HangingRanks, ARankThatCallsOneOperationFewerIsNamedWithItsLine) {
  startMaster();
  const auto agent = this->agent("alpha");
  start("20", {"waits", "waits", "after", "waits"}, kRecorded);
  ASSERT_NO_FATAL_FAILURE(waitUntilTheyHang());
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + command({"hang"}).out;
    return has(out, "\nhang: rank 2 on alpha holds up the job") && has(out, "\nRank 2 in after, train.py:19\n");
  })) << out;
}

TEST_F(HangingRanks, ARankInAnUninterruptibleWaitIsNamedWithItsLine) {
  startMaster();
  const auto agent = this->agent("alpha");
  start("20", {"waits", "waits", "waits", "uninterruptible"}, kRecorded);
  ASSERT_NO_FATAL_FAILURE(waitUntilTheyHang());
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + command({"hang"}).out;
    return has(out, "\nhang: rank 3 on alpha holds up the job") &&
           has(out, "\nRank 3 in uninterruptible, train.py:17\n");
  })) << out;
  EXPECT_TRUE(has(command({"ps"}).out, " D ")) << command({"ps"}).out;
}

TEST_F(HangingRanks, TheLineOfEachIsNamed) {
  start("2", kDifferent);
  ASSERT_NO_FATAL_FAILURE(waitUntilTheyHang());
  std::vector<std::string> command = {"backtrace"};
  for (const auto& rank : ranks_) command.push_back(std::to_string(rank->pid()));
  ranks_[3]->signal(SIGSTOP);
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + tracesmith(command).out;
    return has(out, "\nRank 0 in all_reduce, called from train.py:27\n") &&
           has(out, "\nRank 1 in in_python, train.py:6\n") && has(out, "\nRank 2 in in_c, train.py:8\n") &&
           has(out, "\nRank 3 in busy, train.py:10\n");
  })) << out;
  // Inside gloo, by native frames.
  const Output native = tracesmith({"backtrace", "--native", command[1]});
  EXPECT_EQ(native.rc, 0) << native.err;
  if (native.out.find("libdw") == std::string::npos) {
    EXPECT_NE(native.out.find("c10d::"), std::string::npos) << native.out;
  }
  EXPECT_TRUE(ranks_[0]->running());
}

}  // namespace
}  // namespace tracesmith::test
