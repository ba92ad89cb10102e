// Recordings of real torch jobs whose truth the job itself told. They are not in the repository: without them these
// tests are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

class RealJob : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = test::sharedDir() + "/traces/h200-jobs";
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << "the recordings are not here";
  }
  Analysis of(const std::string& job) {
    auto reader = trace::Reader::open(dir_ + "/" + job + ".sbt");
    EXPECT_TRUE(reader) << reader.status().message();
    auto result = analyze(**reader);
    EXPECT_TRUE(result) << result.status().message();
    return std::move(*result);
  }
  static const Blame& blamed(const Analysis& a, int64_t rank) {
    static const Blame nobody;
    for (const Blame& b : a.blame)
      if (b.rank == rank) return b;
    return nobody;
  }
  static void expectNoClockFault(const Analysis& a) {
    for (const std::string& u : a.unknowns) EXPECT_EQ(u.find("clock"), std::string::npos) << u;
  }

 private:
  std::string dir_;
};

TEST_F(RealJob, EveryOperationOfFsdpMeetsAndLeavesTogether) {
  for (const char* job : {"fsdp-none", "fsdp-none-light"}) {
    const Analysis a = of(job);
    EXPECT_GE(a.collectives.size(), 660u) << job << ": 721 with start-up";
    EXPECT_LE(a.collectives.size(), 721u) << job;
    EXPECT_EQ(a.incomplete, 0u);
    EXPECT_EQ(a.inconsistent, 0u);
    for (const CollectiveResult& c : a.collectives) EXPECT_LT(c.skew_end_us, 1000) << job << " " << c.op << c.index;
    expectNoClockFault(a);
    EXPECT_LT(a.verdict.confidence * (a.verdict.kind == VerdictKind::rank), 0.7) << a.verdict.text;
  }
}

TEST_F(RealJob, TheOthersWaitedAsLongForTheLateRankAsTheJobSays) {
  const Analysis data = of("ddp-data1"), gc = of("ddp-gc3");
  // The job counted its first step too, which belongs to start-up here; in ddp-gc3 it was one of eight with a stop.
  EXPECT_NEAR(blamed(data, 1).cost_us, 3'030'000, 180'000);
  EXPECT_NEAR(blamed(gc, 3).cost_us, 3'628'000 * 7 / 8, 220'000);
  expectNoClockFault(data);
  expectNoClockFault(gc);
}

struct Fault {
  const char* job;
  int64_t rank;
  double cost_pct;  // the job without it was so much shorter; NaN: not known
};

TEST_F(RealJob, TheVerdictNamesTheRankAndWhatItCosts) {
  for (const Fault& f : {Fault{"ddp-data1", 1, 5.6}, Fault{"ddp-gc3", 3, 11.5}, Fault{"fsdp-slow1", 1, kUnknown},
                         Fault{"pp-slow2-default", 2, 19.7}, Fault{"pp-slow2-light", 2, 19.7}}) {
    const Analysis a = of(f.job);
    EXPECT_EQ(a.verdict.rank, f.rank) << f.job << ": " << a.verdict.text;
    EXPECT_GE(a.verdict.confidence, 0.7) << f.job;
    if (!std::isnan(f.cost_pct)) {
      EXPECT_NEAR(a.verdict.cost_pct, f.cost_pct, f.cost_pct / 3) << f.job;
    }
  }
}

TEST_F(RealJob, NobodyIsBlamedWhereNothingIsWrong) {
  for (const char* job : {"ddp-none", "fsdp-none", "fsdp-none-light", "pp-none-default"})
    EXPECT_EQ(of(job).verdict.kind, VerdictKind::none) << job << ": " << of(job).verdict.text;
}

}  // namespace
}  // namespace tracesmith::analysis
