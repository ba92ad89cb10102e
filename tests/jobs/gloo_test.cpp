// Real torch jobs without a GPU: DDP over gloo on four processes of this machine, recorded by torch itself. What
// analyze says is compared with what the job says.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {
namespace {

constexpr int kRanks = 4, kSteps = 7;

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
    // Debian's torch belongs to this one, whichever python3 comes first on the path.
    if (test::run({kPython, "-c", "from torch.distributed import ProcessGroupGloo"}).rc != 0)
      GTEST_SKIP() << "torch with gloo is missing: scripts/setup test installs python3-torch";
  }

  /// Runs the job, imports what its ranks recorded, and analyzes it.
  void job(const std::string& fault, bool marked = true) {
    std::vector<std::string> command = {kPython,
                                        TRACESMITH_SOURCE_DIR "/tests/jobs/gloo_ddp.py",
                                        dir_.path(),
                                        std::to_string(kRanks),
                                        std::to_string(kSteps),
                                        fault};
    if (!marked) command.push_back("unmarked");
    const test::Output o = test::run(command);
    ASSERT_EQ(o.rc, 0) << o.err;
    std::istringstream truth(o.out);
    std::string word;
    ASSERT_TRUE(truth >> word >> calls_ >> word >> clean_ms_ >> word >> faulty_ms_) << o.out;
    std::vector<std::string> import = {"import", "--force", "-o", dir_ / "job.sbt"};
    for (int r = 0; r < kRanks; ++r) import.push_back(dir_ / ("rank" + std::to_string(r) + ".json"));
    const test::Output imported = test::tracesmith(import);
    ASSERT_EQ(imported.rc, 0) << imported.err;
    auto reader = trace::Reader::open(dir_ / "job.sbt");
    ASSERT_TRUE(reader) << reader.status().message();
    auto result = analyze(**reader);
    ASSERT_TRUE(result) << result.status().message();
    a_ = std::move(*result);
  }

  /// Every operation of every rank is there, and met those of the other ranks; steps and phases are known.
  void expectWhole() const {
    EXPECT_EQ(a_.ranks, kRanks);
    int found = 0;
    for (const CollectiveResult& c : a_.collectives) {
      if (c.op == "barrier") continue;  // behind the last step: the recording may end before it
      ++found;
      EXPECT_EQ(c.ranks, kRanks) << c.op << " " << c.index;
      EXPECT_EQ(c.step, c.index / (calls_ / kSteps)) << c.op << " " << c.index;
    }
    EXPECT_EQ(found, calls_);
    EXPECT_EQ(static_cast<int>(a_.steps.size()), kSteps);
    for (const Breakdown& b : a_.breakdown) {
      EXPECT_GT(b.forward_us, 0) << b.rank;
      EXPECT_GT(b.backward_us, 0) << b.rank;
      EXPECT_GT(b.optimizer_us, 0) << b.rank;
    }
  }

  /// Within a third of what the fault really cost. Four ranks on two cores: where another process came between, what
  /// the job says of itself is as far off as the verdict, and it runs again.
  void expectCost(const std::string& fault) {
    for (int more = 3;; --more) {
      const double truth = 100 * (1 - clean_ms_ / faulty_ms_);
      if (more > 0 && std::abs(a_.verdict.cost_pct - truth) > truth / 3) {
        job(fault);
        if (HasFatalFailure()) return;
        continue;
      }
      EXPECT_NEAR(a_.verdict.cost_pct, truth, truth / 3) << a_.verdict.text;
      return;
    }
  }

  static constexpr const char* kPython = "/usr/bin/python3";
  test::TempDir dir_;
  int calls_ = 0;
  double clean_ms_ = 0, faulty_ms_ = 0;
  Analysis a_;
};

TEST_F(Gloo, CleanJobHasStepsPhasesAndCollectives) {
  job("none");
  if (HasFatalFailure()) return;
  expectWhole();
  // Other processes of this machine may slow a rank down a little.
  if (a_.verdict.kind == VerdictKind::rank) {
    EXPECT_LT(a_.verdict.cost_pct, 33) << a_.verdict.text;
  }
}

TEST_F(Gloo, StepsThatAreNotMarkedEndWithTheirOptimizer) {
  job("none", false);
  if (HasFatalFailure()) return;
  EXPECT_EQ(a_.steps_by, "optimizer");
  // What comes before the first optimizer may be start-up, and a first step that is much longer than usual is.
  EXPECT_LE(static_cast<int>(a_.steps.size()), kSteps);
  EXPECT_GE(static_cast<int>(a_.steps.size()) + 2, kSteps);
}

TEST_F(Gloo, LateDataOfARankIsNamed) {
  job("late:1");
  if (HasFatalFailure()) return;
  expectWhole();
  EXPECT_EQ(a_.verdict.rank, 1) << a_.verdict.text;
  EXPECT_EQ(a_.verdict.cause, Cause::data_loading) << a_.verdict.text;
  expectCost("late:1");
}

TEST_F(Gloo, RankThatComputesLongerIsNamed) {
  job("slow:2");
  if (HasFatalFailure()) return;
  expectWhole();
  EXPECT_EQ(a_.verdict.rank, 2) << a_.verdict.text;
  EXPECT_EQ(a_.verdict.cause, Cause::host_work) << a_.verdict.text;
  expectCost("slow:2");
}

}  // namespace
}  // namespace tracesmith::analysis
