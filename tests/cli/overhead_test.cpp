// scripts/gpu/overhead.py with a job that only says how long its steps took: what is compared with what.
#include <gtest/gtest.h>

#include "support/process.hpp"

namespace tracesmith {
namespace {

TEST(Overhead, ComparesEachRecorderWithTheUntouchedProcessOfItsRound) {
  test::TempDir dir;
  const std::string job = dir / "job.py";
  test::writeFile(job, R"(
import json, os, sys
folder = sys.argv[2]
slower = 1.5 if "torch.profiler" in sys.argv else 1.1 if "TRACESMITH_MODE" in os.environ else 1
open(folder + "/ready", "w").close()
for turn, line in enumerate(open(folder + "/go"), 1):
    what, steps = line.split()
    if what == "end":
        sys.exit()
    if what == "small" and turn == 4 and "torch.profiler" in sys.argv:
        sys.exit("broken")
    step = 10 * turn * slower
    figures = {} if what.startswith("drop-") else {"median_ms": step, "mean_ms": step, "cpu_ms": step, "steps_run": int(steps)}
    json.dump(figures, open(folder + "/new", "w"))
    os.rename(folder + "/new", folder + f"/turn-{turn}.json")
)");
  const test::Output o = test::run({"python3", TRACESMITH_SOURCE_DIR "/scripts/gpu/overhead.py", dir / "out", "--sets",
                                    "1", "--rounds", "3", "--large-rounds", "1", "--job", "python3 " + job,
                                    "--recorders", "default,torch", "--tracesmith", TRACESMITH_BIN});
  EXPECT_EQ(o.rc, 0) << o.err;
  const std::string table = test::readFile(dir / "out" + "/overhead.md");
  auto has = [&](const std::string& part) { return table.find(part) != std::string::npos; };
  EXPECT_TRUE(has("| never touched | 3 | 30.00 ± 9.06 (25.00 … 35.00) ms |")) << "the first turn warms up\n" << table;
  EXPECT_TRUE(has("| `run` (default) | 3 | +10.0 ± 0.0 (+10.0 … +10.0) % |")) << table;
  EXPECT_TRUE(has("| torch.profiler, CUDA only | 2 | +50.0 ± 0.0 (+50.0 … +50.0) % |")) << "one has failed\n" << table;
  EXPECT_TRUE(has("| `run` (default) | 1 | +10.0 ± 0.0 (+10.0 … +10.0) % |")) << "GPU-bound, one round\n" << table;
  EXPECT_NE(o.out.find("set 1, torch: ended, code 1: broken"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace tracesmith
