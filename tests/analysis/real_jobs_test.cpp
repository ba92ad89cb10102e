// Recordings of real torch jobs whose truth the job itself told. They are not in the repository: without them these
// tests are skipped.
#include <gtest/gtest.h>

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
    ASSERT_EQ(a.collectives.size(), 721u) << job;
    EXPECT_EQ(a.incomplete, 0u);
    EXPECT_EQ(a.inconsistent, 0u);
    for (const CollectiveResult& c : a.collectives) EXPECT_LT(c.skew_end_us, 1000) << job << " " << c.op << c.index;
    expectNoClockFault(a);
    EXPECT_LT(a.verdict.confidence * (a.verdict.kind == VerdictKind::rank), 0.7) << a.verdict.text;
  }
}

TEST_F(RealJob, TheOthersWaitedAsLongForTheLateRankAsTheJobSays) {
  const Analysis data = of("ddp-data1"), gc = of("ddp-gc3");
  EXPECT_NEAR(blamed(data, 1).cost_us, 3'030'000, 150'000);
  EXPECT_NEAR(blamed(gc, 3).cost_us, 3'628'000, 180'000);
  expectNoClockFault(data);
  expectNoClockFault(gc);
}

}  // namespace
}  // namespace tracesmith::analysis
