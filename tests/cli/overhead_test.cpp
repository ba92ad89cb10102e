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
plan, folder = sys.argv[2:4]
open(folder + "/ready", "w").close()
with open(folder + "/go") as go:
    go.readline()
number = int(os.path.basename(folder).split("-")[0])
slower = 1.5 if "torch.profiler" in sys.argv else 1.1 if "TRACESMITH_MODE" in os.environ else 1
if number == 2 and "torch.profiler" in sys.argv:
    sys.exit("broken")
step = 10 * (number + 1) * slower
json.dump({p.split("=")[0]: {"median_ms": step, "mean_ms": step, "cpu_ms": step} for p in plan.split(",")}, open(folder + "/figures.json", "w"))
)");
  const test::Output o = test::run({"python3", TRACESMITH_SOURCE_DIR "/scripts/gpu/overhead.py", dir / "out",
                                    "--rounds", "3", "--large-rounds", "1", "--job", "python3 " + job, "--recorders",
                                    "default,torch", "--tracesmith", TRACESMITH_BIN});
  EXPECT_EQ(o.rc, 0) << o.err;
  const std::string table = test::readFile(dir / "out" + "/overhead.md");
  auto has = [&](const std::string& part) { return table.find(part) != std::string::npos; };
  EXPECT_TRUE(has("| never touched | 3 | 20.00 ms (10.00 … 30.00) |")) << table;
  EXPECT_TRUE(has("| `run` (default) | 3 | +10.0 % (+10.0 … +10.0) |")) << table;
  EXPECT_TRUE(has("| torch.profiler, CUDA only | 2 | +50.0 % (+50.0 … +50.0) |")) << "one has failed\n" << table;
  EXPECT_TRUE(has("| `run` (default) | 1 | +10.0 % (+10.0 … +10.0) |")) << "GPU-bound, one round\n" << table;
  EXPECT_NE(o.out.find("round 3, torch: ended without figures, code 1: broken"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace tracesmith
