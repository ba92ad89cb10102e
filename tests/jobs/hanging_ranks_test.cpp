// A real torch job over gloo that hangs in different ways at once: the line of each rank is named from outside.
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "support/child.hpp"

namespace tracesmith::test {
namespace {

constexpr const char* kProgram = R"(import ctypes, sys, time
import torch
import torch.distributed as dist
rank = int(sys.argv[1])
def in_python():
    time.sleep(1000)
def in_c():
    ctypes.PyDLL(None).sleep(1000)
def busy():
    while True: pass
dist.init_process_group('gloo', init_method='file://' + sys.argv[2], rank=rank, world_size=4)
for step in range(3):
    if step == 2:
        sys.stdout.write('hangs'); sys.stdout.flush()
        if rank > 0: [in_python, in_c, busy][rank - 1]()
    dist.all_reduce(torch.ones(8))
)";

TEST(HangingRanks, TheLineOfEachIsNamed) {
  const std::string python = "/usr/bin/python3";  // torch belongs to it, whichever comes first on the path
  if (run({python, "-c", "from torch.distributed import ProcessGroupGloo"}).rc != 0)
    GTEST_SKIP() << "torch with gloo is missing: scripts/setup test installs python3-torch";
  TempDir dir;
  writeFile(dir / "train.py", kProgram);
  std::vector<std::unique_ptr<Child>> ranks;
  std::vector<std::string> command = {"backtrace"};
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    ranks.push_back(std::make_unique<Child>(std::vector<std::string>{python, dir / "train.py", number, dir / "meeting"},
                                            Environment{{"RANK", number}, {"OMP_NUM_THREADS", "1"}}));
    command.push_back(std::to_string(ranks.back()->pid()));
  }
  for (const auto& rank : ranks) {  // torch takes long to load where others compute
    const auto hangs = [&] { return rank->out() == "hangs" || !rank->running(); };
    ASSERT_TRUE(eventually(hangs) || eventually(hangs)) << rank->err();
    ASSERT_TRUE(rank->running()) << rank->err();
  }
  ranks[3]->signal(SIGSTOP);
  std::string out;
  EXPECT_TRUE(eventually([&] {
    out = "\n" + tracesmith(command).out;
    const auto has = [&](const char* line) { return out.find(line) != std::string::npos; };
    return has("\nRank 0 in all_reduce, called from train.py:16\n") && has("\nRank 1 in in_python, train.py:6\n") &&
           has("\nRank 2 in in_c, train.py:8\n") && has("\nRank 3 in busy, train.py:10\n");
  })) << out;
  // Inside gloo, by native frames.
  const Output native = tracesmith({"backtrace", "--native", command[1]});
  EXPECT_EQ(native.rc, 0) << native.err;
  if (native.out.find("libdw") == std::string::npos) {
    EXPECT_NE(native.out.find("c10d::"), std::string::npos) << native.out;
  }
  EXPECT_TRUE(ranks[0]->running());
}

}  // namespace
}  // namespace tracesmith::test
