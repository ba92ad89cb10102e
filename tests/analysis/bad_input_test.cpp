// Traces that do not say enough, or contradict themselves: the answer says what it cannot know, and nobody is blamed
// for sure who need not be the one.
#include <gtest/gtest.h>

#include <fstream>

#include "capture/sim/rows.hpp"
#include "support/process.hpp"
#include "support/small_job.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

constexpr double kSure = 0.7;

Analysis analyzed(const std::string& path) {
  auto reader = trace::Reader::open(path);
  EXPECT_TRUE(reader) << reader.status().message();
  auto result = analyze(**reader);
  EXPECT_TRUE(result) << result.status().message();
  return std::move(*result);
}

bool blames(const Analysis& a) { return a.verdict.kind == VerdictKind::rank || a.verdict.kind == VerdictKind::link; }

bool says(const Analysis& a, const std::string& part) {
  for (const auto* list : {&a.unknowns, &a.notes})
    for (const std::string& s : *list)
      if (s.find(part) != s.npos) return true;
  return false;
}

struct Real {
  const char* name;
  std::vector<std::string> files;
  std::string unknown;  // must be said
};

class RealBadInput : public ::testing::TestWithParam<Real> {};

TEST_P(RealBadInput, SaysWhatItCannotKnow) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  test::TempDir dir;
  std::vector<std::string> args = {"import", "--force"};
  for (const std::string& f : GetParam().files) args.push_back(test::sharedDir() + "/traces/" + f);
  args.insert(args.end(), {"-o", dir / "t.sbt"});
  const test::Output imported = test::tracesmith(args);
  ASSERT_EQ(imported.rc, 0) << imported.err;
  const Analysis a = analyzed(dir / "t.sbt");
  EXPECT_TRUE(says(a, GetParam().unknown)) << a.verdict.text;
  EXPECT_FALSE(blames(a) && a.verdict.confidence >= kSure) << a.verdict.text;
  EXPECT_FALSE(a.verdict.text.empty());
}

INSTANTIATE_TEST_SUITE_P(Traces, RealBadInput,
                         ::testing::Values(Real{"OneOfTwoRanks", {"a100-nccl-rank0of2.json.gz"}, "only one rank"},
                                           Real{"OneOfEightRanks", {"b200-rank0of8.json.gz"}, "1 of 8 ranks"},
                                           Real{"NoSteps", {"b200-rank0of8.json.gz"}, "steps are not marked"},
                                           Real{"NoCollectives", {"mi300-bert-small.json.gz"}, "no collectives"},
                                           Real{"NoGpu", {"corner-cases/no-gpu.json.gz"}, "no collectives"},
                                           Real{"CpuOnly", {"corner-cases/cpu-only-rank34.json.gz"}, "only one rank"},
                                           Real{"NoRank", {"corner-cases/no-rank.json.gz"}, "no collectives"},
                                           Real{"TwoOf128Ranks",
                                                {"two-of-128-ranks/sampled_rank-0.json.gz",
                                                 "two-of-128-ranks/sampled_rank-1.json.gz"},
                                                "2 of 128 ranks"}),
                         [](const auto& p) { return p.param.name; });

TEST(BadInput, HostsAloneSayNothingAboutWaiting) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  test::TempDir dir;
  ASSERT_EQ(test::tracesmith(
                {"import", "--force", test::sharedDir() + "/traces/corner-cases/no-gpu.json.gz", "-o", dir / "t.sbt"})
                .rc,
            0);
  EXPECT_NE(analyzed(dir / "t.sbt").verdict.text.find("the host computes for"), std::string::npos);
}

/// A job of which some blocks in the middle are damaged.
Analysis damaged(const sim::Faults& faults, uint64_t seed) {
  test::TempDir dir;
  sim::JobConfig c;
  c.ranks = 8;
  c.gpus_per_node = 4;
  c.events = 8 * 60'000;
  c.seed = seed;
  c.faults = faults;
  const Status s = sim::synthesize(c, dir / "t.sbt", 2);
  EXPECT_TRUE(s) << s.message();
  {
    std::fstream file(dir / "t.sbt", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    const auto size = static_cast<int64_t>(file.tellg());
    sim::Random random(seed);
    for (int i = 0; i < 6; ++i) {
      file.seekp(size / 4 + static_cast<int64_t>(random.uniform() * static_cast<double>(size) / 2));
      file.write("damaged", 7);
    }
  }
  const Analysis a = analyzed(dir / "t.sbt");
  EXPECT_TRUE(says(a, "damaged place"));
  return a;
}

TEST(BadInput, BlocksLostInTheMiddleMakeNobodyGuilty) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Analysis a = damaged(sim::Faults::none(), seed);
    EXPECT_FALSE(blames(a) && a.verdict.confidence >= kSure) << seed << ": " << a.verdict.text;
  }
}

TEST(BadInput, BlocksLostInTheMiddleHideNoSlowRankBehindAnother) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    sim::Faults faults = sim::Faults::none();
    faults.slow_rank = 5;
    const Analysis a = damaged(faults, seed);
    EXPECT_TRUE(!blames(a) || a.verdict.rank == 5 || a.verdict.confidence < kSure) << seed << ": " << a.verdict.text;
  }
}

TEST(BadInput, TwoJobsWithTheSameIdsInOneTraceAreNotMixedUpForSure) {
  // Ranks, communicators and sequence numbers of both are the same: two healthy jobs, one after the other.
  test::TempDir dir;
  test::SmallJob job;
  test::writeSmallJob(dir / "a.sbt", job);
  job.steps = 13;
  job.kernels = 31;
  test::writeSmallJob(dir / "b.sbt", job);
  std::ofstream both(dir / "both.sbt", std::ios::binary);
  for (const char* part : {"a.sbt", "b.sbt"}) both << std::ifstream(dir / part, std::ios::binary).rdbuf();
  both.close();
  const Analysis a = analyzed(dir / "both.sbt");
  EXPECT_GT(a.events, analyzed(dir / "a.sbt").events) << "both are read";
  EXPECT_FALSE(blames(a) && a.verdict.confidence >= kSure) << a.verdict.text;
}

}  // namespace
}  // namespace tracesmith::analysis
