// scripts/gpu/check_job.py on a simulated job, whose truth is known: what it accepts and what it refuses.
#include <gtest/gtest.h>

#include "support/process.hpp"

namespace tracesmith {
namespace {

class CheckJob : public ::testing::Test {
 protected:
  void SetUp() override {
    const test::Output o = test::run({TRACESMITH_BIN, "synth", "-o", dir_ / "t.sbt", "--ranks", "4", "--gpus-per-node",
                                      "4", "--events", "60000", "--tensor", "2", "--fault", "slow-gpu=2:1.3"});
    ASSERT_EQ(o.rc, 0) << o.err;
  }

  /// What the check says if the job had called what is in the trace, after `change` to that truth.
  std::string check(const std::string& change, const std::string& saved = "20") {
    const test::Output o =
        test::run({"python3", "-c", R"(
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import check_job
ts, trace, change, saved = sys.argv[2:]
calls = {str(rank): [] for rank in range(4)}
for row in sorted(check_job.operations(ts, trace), key=lambda r: r["ts_enqueue"]):
    calls[str(row["rank"])].append([row["comm"], row["op"], 1])
truth = {"ranks": 4, "fault": "compute", "fault_rank": 2, "median_step_ms": 1, "calls": calls}
exec(change)
row = dict(check_job.check(ts, trace, truth, float(saved)), case="case", fault_rank=truth["fault_rank"])
print(check_job.markdown(row))
print(check_job.totals([row, {"case": "other", "error": "broken"}]))
)",
                   TRACESMITH_SOURCE_DIR "/scripts/gpu", TRACESMITH_BIN, dir_ / "t.sbt", change, saved});
    EXPECT_EQ(o.rc, 0) << o.err;
    return o.out;
  }

  test::TempDir dir_;
};

TEST_F(CheckJob, AcceptsWhatIsTrue) {
  const std::string out = check("check_job.CAUSES['compute'] += ('clock',)");  // as the simulator says why
  EXPECT_NE(out.find("| right |"), std::string::npos) << out;
  EXPECT_NE(out.find("1 of 2 cases ran; recorded exactly 1 of 1; verdict right 1 of 1; cost within a third 1 of 1"),
            std::string::npos)
      << out;
}

TEST_F(CheckJob, RefusesWhatIsNot) {
  std::string out = check("calls['1'].pop()");
  EXPECT_NE(out.find("rank 1 all_gather:"), std::string::npos) << "one call less\n" << out;
  out = check(
      "dp = [c for c in calls['3'] if c[0] == 'dp1']\n"
      "i = next(i for i in range(len(dp)) if dp[i][1] != dp[i + 1][1])\n"
      "dp[i][1], dp[i + 1][1] = dp[i + 1][1], dp[i][1]");
  EXPECT_NE(out.find("rank 3 group dp1: no communicator has its"), std::string::npos) << "another order\n" << out;
  out = check("truth['fault_rank'] = 1");
  EXPECT_NE(out.find("**WRONG RANK**"), std::string::npos) << out;
  EXPECT_NE(out.find("a wrong rank at 70 % or more: 1"), std::string::npos) << out;
  out = check("truth['loop_s'] = 1e-3");
  EXPECT_NE(out.find("truth 0."), std::string::npos) << "nearly all steps were without the fault\n" << out;
  out = check("", "5");
  EXPECT_NE(out.find("truth 5.0 %"), std::string::npos) << "a cost that is far off\n" << out;
}

}  // namespace
}  // namespace tracesmith
