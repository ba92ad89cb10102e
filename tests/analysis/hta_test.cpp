// HTA's figures, equal to the µs on HTA's own traces.
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/hta/hta.hpp"
#include "analysis/rows/intervals.hpp"
#include "support/imported.hpp"
#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"
#include "tracesmith/analysis/hta_critical_path.hpp"

namespace tracesmith::analysis {
namespace {

TEST(Intervals, UnionJoinsWhatTouches) {
  Union u;
  u.add(0, 10);
  u.add(5, 8);
  u.add(10, 12);
  u.add(20, 21);
  ASSERT_EQ(u.parts().size(), 2u);
  EXPECT_EQ(u.length(), 13);
  EXPECT_EQ(commonLength(u.parts(), {{9, 11}, {12, 30}}), 2 + 1);
}

TEST(Intervals, SweepGivesEveryStretchItsMask) {
  const std::vector<Interval> a = {{0, 10}, {20, 30}}, b = {{5, 25}};
  std::map<unsigned, int64_t> by_mask;
  sweep({&a, &b}, [&](unsigned mask, int64_t from, int64_t to) { by_mask[mask] += to - from; });
  EXPECT_EQ(by_mask, (std::map<unsigned, int64_t>{{1, 10}, {2, 10}, {3, 10}}));
}

TEST(Hta, KernelTypesFollowItsPatterns) {
  EXPECT_EQ(htaType("ncclDevKernel_AllReduce"), HtaType::communication);
  EXPECT_EQ(htaType("void ncclKernel_AllGather()"), HtaType::communication);
  EXPECT_EQ(htaType("hipMemcpyAsync"), HtaType::communication) << "HTA asks for ^hip first";
  EXPECT_EQ(htaType("Memcpy HtoD (Pageable -> Device)"), HtaType::memory);
  EXPECT_EQ(htaType("void my_Memcpy_kernel"), HtaType::other);
  EXPECT_EQ(htaType("Context Sync"), HtaType::other);
  EXPECT_EQ(htaType("void gemm<float>()"), HtaType::computation);
}

TEST(Hta, TimesRoundInwardsAsFloatsGiveThem) {
  const HtaClock small;
  EXPECT_EQ(small.start(1'000), 1);
  EXPECT_EQ(small.start(1'001), 2);
  EXPECT_EQ(small.end(1'001, 2'999), 2);
  EXPECT_EQ(small.end(1'100, 1'200), 1) << "shorter than a µs: ends before it starts, as in HTA";
  constexpr int64_t kBase = 1'700'000'000'000'000'000;
  EXPECT_EQ(HtaClock().start(kBase + 100), kBase / 1000) << "floats of this size are a quarter of a µs apart";
  EXPECT_EQ(HtaClock(kBase).start(kBase + 100), kBase / 1000 + 1);
}

struct Known {
  const char* file;
  int64_t idle, compute, non_compute;
};

class RealTrace : public ::testing::TestWithParam<Known> {};

Analysis analyzed(const std::vector<std::string>& files, test::TempDir& dir) {
  std::vector<std::string> args = {"import", "--force"};
  for (const std::string& f : files) args.push_back(test::sharedDir() + "/traces/" + f);
  args.insert(args.end(), {"-o", dir / "t.sbt"});
  const test::Output imported = test::tracesmith(args);
  EXPECT_EQ(imported.rc, 0) << imported.err;
  auto reader = trace::Reader::open(dir / "t.sbt");
  EXPECT_TRUE(reader);
  auto result = analyze(**reader);
  EXPECT_TRUE(result) << result.status().message();
  return std::move(*result);
}

TEST_P(RealTrace, HasTheKnownBreakdown) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  test::TempDir dir;
  const Analysis a = analyzed({GetParam().file}, dir);
  ASSERT_EQ(a.hta.temporal.size(), 1u);
  EXPECT_EQ(a.hta.temporal[0].idle_us, GetParam().idle);
  EXPECT_EQ(a.hta.temporal[0].compute_us, GetParam().compute);
  EXPECT_EQ(a.hta.temporal[0].non_compute_us, GetParam().non_compute);
}

INSTANTIATE_TEST_SUITE_P(Files, RealTrace,
                         ::testing::Values(Known{"a100-nccl-rank0of2.json.gz", 338781, 75169, 21636},
                                           Known{"v100-nanosecond.json.gz", 10113, 372150, 2371},
                                           Known{"critical-path/simple-add.json.gz", 16414376, 10670, 39293},
                                           Known{"critical-path/alexnet.json.gz", 12929684, 10630, 55697},
                                           Known{"mi250-toy.json.gz", 8780, 96, 35}));

TEST(Hta, OverlapTypesIdleAndQueueOfARealTrace) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  test::TempDir dir;
  const Analysis a = analyzed({"a100-nccl-rank0of2.json.gz"}, dir);
  ASSERT_EQ(a.hta.overlap.size(), 1u);
  EXPECT_EQ(a.hta.overlap[0].overlap_us, 3473);
  EXPECT_EQ(a.hta.overlap[0].comm_us, 24278);
  EXPECT_EQ(a.hta.kernel_types, (std::map<std::string, int64_t>{{"COMPUTATION", 71696},
                                                                {"COMMUNICATION", 20621},
                                                                {"MEMORY", 831},
                                                                {"COMPUTATION overlapping COMMUNICATION", 3473},
                                                                {"COMMUNICATION overlapping MEMORY", 184}}));
  ASSERT_EQ(a.hta.queue.size(), 2u);
  EXPECT_EQ(a.hta.queue[0].stream, 7);
  EXPECT_EQ(a.hta.queue[0].count, 5004u);
  EXPECT_NEAR(a.hta.queue[0].mean, 0.822942, 5e-7);
  EXPECT_EQ(a.hta.queue[0].max, 10);
  ASSERT_EQ(a.hta.idle.size(), 2u);
  EXPECT_EQ(a.hta.idle[0].host_wait_us, 357247);
  EXPECT_EQ(a.hta.idle[0].kernel_wait_us, 2155);
  EXPECT_EQ(a.hta.idle[0].other_us, 0);
}

TEST(Hta, KernelsBeyondTenAreOthers) {
  std::string events;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i), dur = std::to_string(100 - i);
    events += std::string(i ? "," : "") + R"({"ph":"X","cat":"kernel","name":"k)" + n + R"(","pid":0,"tid":7,"ts":)" +
              std::to_string(1000 * i) + R"(,"dur":)" + dur + R"(,"args":{"stream":7,"correlation":)" + n + "}}";
  }
  test::Imported imported(test::asArray(events));
  auto reader = trace::Reader::open(imported.dir / "out.sbt");
  ASSERT_TRUE(reader);
  auto a = analyze(**reader);
  ASSERT_TRUE(a) << a.status().message();
  ASSERT_EQ(a->hta.kernels.size(), 10u);
  EXPECT_EQ(a->hta.kernels[0].name, "k0");
  EXPECT_EQ(a->hta.kernels.back().name, "others");
  EXPECT_EQ(a->hta.kernels.back().sum_us, 91 + 90 + 89);
  EXPECT_EQ(a->hta.temporal[0].kernel_time_us, 11'000 + 89);
}

TEST(Hta, AKernelTooShortForWholeMicrosecondsHasNoLength) {
  test::Imported imported(test::asArray(
      R"({"ph":"X","cat":"kernel","name":"tiny","pid":0,"tid":7,"ts":10.3,"dur":0.4,"args":{"stream":7,"correlation":1}},)"
      R"({"ph":"X","cat":"kernel","name":"tiny","pid":0,"tid":7,"ts":20,"dur":5,"args":{"stream":7,"correlation":2}})"));
  auto reader = trace::Reader::open(imported.dir / "out.sbt");
  ASSERT_TRUE(reader);
  auto a = analyze(**reader);
  ASSERT_TRUE(a) << a.status().message();
  ASSERT_EQ(a->hta.kernels.size(), 1u);
  EXPECT_TRUE(std::isnan(a->hta.kernels[0].min_us)) << a->hta.kernels[0].min_us;
  EXPECT_EQ(a->hta.kernels[0].max_us, 5);
  EXPECT_NE(toJson(*a, "t").find("\"min_us\":null"), std::string::npos);
}

TEST(Hta, TwoOf128RanksBlameNobody) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  test::TempDir dir;
  const Analysis a =
      analyzed({"two-of-128-ranks/sampled_rank-0.json.gz", "two-of-128-ranks/sampled_rank-1.json.gz"}, dir);
  EXPECT_EQ(a.ranks, 2);
  EXPECT_EQ(a.world_size, 128);
  ASSERT_EQ(a.hta.temporal.size(), 2u);
  EXPECT_EQ(a.hta.temporal[0].idle_us, 321378);
  EXPECT_LT(a.verdict.confidence, 0.7) << a.verdict.text;
}

Result<HtaPath> pathOf(const std::string& file, const HtaPathOptions& options) {
  test::TempDir dir;
  EXPECT_EQ(
      test::tracesmith({"import", "--force", test::sharedDir() + "/traces/critical-path/" + file, "-o", dir / "t.sbt"})
          .rc,
      0);
  auto reader = trace::Reader::open(dir / "t.sbt");
  EXPECT_TRUE(reader);
  return htaCriticalPath(**reader, options);
}

TEST(HtaCriticalPath, HasHtasSizeOnItsOwnTrace) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  HtaPathOptions options;
  options.range = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";
  options.instance = 1;
  auto path = pathOf("simple-add.json.gz", options);
  ASSERT_TRUE(path) << path.status().message();
  EXPECT_EQ(path->nodes, 315u);
  EXPECT_EQ(path->events, 159u);
  EXPECT_EQ(path->edges, 314u);
  int64_t sum = 0;
  for (const auto& [what, us] : path->bound_by) sum += us;
  EXPECT_EQ(sum, path->weight_us);
  auto alexnet = pathOf("alexnet.json.gz", options);
  ASSERT_TRUE(alexnet) << alexnet.status().message();
  EXPECT_GT(alexnet->nodes, 0u);
  options.instance = 99;
  EXPECT_FALSE(pathOf("simple-add.json.gz", options));
  options.range = "nowhere";
  EXPECT_FALSE(pathOf("simple-add.json.gz", options));
}

}  // namespace
}  // namespace tracesmith::analysis
