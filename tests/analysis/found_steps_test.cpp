// Steps that nobody marked: found by what repeats itself.
#include <gtest/gtest.h>

#include <random>

#include "analysis/rows/launch_order.hpp"
#include "analysis/rows/repetition.hpp"
#include "base/statistics.hpp"
#include "support/process.hpp"
#include "tracesmith/analysis/analysis.hpp"

namespace tracesmith::analysis {
namespace {

using trace::kNull;

/// What comes, one after another, 10 ns apart; a space is a pause of 1 µs.
struct Sequence {
  std::vector<uint64_t> symbols;
  std::vector<int64_t> times;
  Sequence& add(const std::string& what) {
    for (char c : what) {
      now_ += c == ' ' ? 1000 : 10;
      if (c == ' ') continue;
      symbols.push_back(static_cast<uint64_t>(c));
      times.push_back(now_);
    }
    return *this;
  }
  std::optional<Repetition> found(uint64_t first = 0) const { return findRepetition(symbols, times, first); }

 private:
  int64_t now_ = 0;
};

std::string repeated(const std::string& what, int n) {
  std::string out;
  while (n-- > 0) out += what;
  return out;
}

TEST(FindRepetition, TakesTheWholeStepNotItsLayers) {
  Sequence s;
  s.add("init of weights and other things that come only once");
  const std::string step = " e" + repeated("abcd", 24) + "L" + repeated("wxyz", 24) + "OPQ";
  for (int i = 0; i < 8; ++i) s.add(step);
  const auto found = s.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, step.size() - 1);
  EXPECT_EQ(found->starts.size(), 8u);
  EXPECT_EQ(s.symbols[found->starts[0]], 'e');  // after the pause
}

TEST(FindRepetition, TwoOperationsAreEnough) {
  // Every layer is gathered forward and backward, and its gradients are scattered.
  Sequence s;
  const std::string step = repeated("G", 20) + " " + repeated("GR", 19) + "RR";
  for (int i = 0; i < 6; ++i) s.add(step);
  const auto found = s.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, step.size() - 1);
}

TEST(FindRepetition, LayersOfABackwardPassAreNoSteps) {
  // Four layers, in three parts each: gathered forward; gathered again and scattered backward.
  Sequence s;
  const std::string step = repeated("GGG", 4) + repeated("GGGRRR", 4) + " ";
  for (int i = 0; i < 30; ++i) s.add(step);
  const auto found = s.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, step.size() - 1);
  EXPECT_EQ(found->starts.size(), 30u);
}

TEST(FindRepetition, WhatComesOnlySometimesDoesNotMatter) {
  Sequence s;
  for (int i = 0; i < 20; ++i) s.add(" abcdefghijklmn" + std::string(i % 5 == 0 ? "1" : "") + "opqrstuvw");
  const auto found = s.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, 23u);
  EXPECT_EQ(found->starts.size(), 20u);
}

TEST(FindRepetition, AnotherSequenceBeginsAtTheSamePlace) {
  Sequence a, b;
  for (int i = 0; i < 5; ++i) {
    a.add(" abcdefgh");
    b.add("abcde fgh");
  }
  EXPECT_EQ(b.symbols[b.found()->starts[0]], 'f');
  EXPECT_EQ(b.symbols[b.found(a.found()->first)->starts[0]], 'a');
}

TEST(FindRepetition, FindsNothingWhereThereIsNothing) {
  EXPECT_FALSE(Sequence().found());
  EXPECT_FALSE(Sequence().add("abcdefgh").found());
  std::mt19937 random(7);
  Sequence s;
  for (int i = 0; i < 2000; ++i) s.add(std::string(1, static_cast<char>('a' + random() % 20)));
  EXPECT_FALSE(s.found());
}

/// f: forward, b: backward, on another thread; o: optimizer. Each kernel takes 10 ns and is launched 5 ns before.
struct Rank {
  RankRows rows;
  std::vector<uint8_t> optimizer = std::vector<uint8_t>(128, 0);
  int64_t now = 0;
  void run(const std::string& what) {
    for (char c : what) {
      const auto id = static_cast<int64_t>(rows.calls.size());
      rows.calls.push_back({now - 5, now, id, 0, c == 'b'});
      rows.device.push_back({now, now + 10, id, static_cast<uint32_t>(c), trace::kNoName, 0, trace::EventType::kernel});
      now += 20;
    }
  }
  Rank() {
    rows.streams = {7};
    optimizer['o'] = 1;
  }
  LaunchOrder order() const { return LaunchOrder(rows, Launches(rows), optimizer); }
};

TEST(LaunchOrder, AStepEndsWithItsOptimizerHoweverOftenGradientsAccumulate) {
  Rank rank;
  rank.run("fffiiiiiii");  // start-up
  const std::string micro = repeated("f", 10) + repeated("b", 10);
  for (int i = 0; i < 5; ++i) rank.run(repeated(micro, 4) + "oofoo");
  const std::vector<RankStep> steps = rank.order().optimizerSteps();
  ASSERT_EQ(steps.size(), 5u);  // the kernels of the start-up are few
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(steps[i].end - steps[i].ts, 85 * 20) << i;
    EXPECT_EQ(steps[i].step, static_cast<int64_t>(i));
  }
}

TEST(LaunchOrder, AStepEndsWithWhatTheRangeOfItsOptimizerLaunched) {
  Rank rank;
  std::vector<Interval> optimizers;
  rank.run(repeated("i", 40));  // start-up
  for (int i = 0; i < 4; ++i) {
    rank.run(repeated("ffbb", 1 + i % 2));  // of any length
    optimizers.push_back({rank.now - 5, rank.now + 30});
    rank.run("xxf");  // its kernels have no telling names; the last is the next step's
  }
  const std::vector<RankStep> steps = rank.order().stepsBetween(optimizers, 0);
  ASSERT_EQ(steps.size(), 3u);
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(steps[s].end, optimizers[s + 1].from + 35) << s;
  EXPECT_EQ(steps[0].ts, optimizers[0].from + 35);
}

TEST(LaunchOrder, MovesStepsToTheEndOfTheOptimizer) {
  Rank rank;
  std::vector<RankStep> steps;
  for (int i = 0; i < 4; ++i) {
    rank.run("ffff");
    steps.push_back({rank.now, rank.now + 100, i, rank.now - 5});  // an operation in the middle of the backward pass
    rank.run("bbbboo");
  }
  const auto moved = rank.order().atOptimizer(steps);
  ASSERT_TRUE(moved);
  for (int i = 1; i < 4; ++i) EXPECT_EQ((*moved)[static_cast<size_t>(i)].ts, i * 10 * 20 - 10) << i;
  EXPECT_EQ((*moved)[3].end, rank.now - 10);
}

TEST(LaunchOrder, TellsPhasesByTheLaunchingThread) {
  Rank rank;
  rank.run("ffbbffbbffoofbb");  // f after the last b, before o: gradients are clipped
  const std::vector<Phase> phases = rank.order().phases(rank.rows.calls.size(), PhaseTimeline({}, {}));
  std::string text;
  for (Phase p : phases) text += "FBODn"[static_cast<int>(p)];
  EXPECT_EQ(text, "FFBBFFBBOOOOFBB");
}

TEST(LaunchOrder, OneThreadTellsNoPhases) {
  Rank rank;
  rank.run("ffffoofffoo");
  EXPECT_TRUE(rank.order().phases(rank.rows.calls.size(), PhaseTimeline({}, {})).empty());
}

struct Job {
  const char* file;
  size_t steps;  // as its script ran them
  double step_ms;
  bool slow = false;  // a rank computes more in its forward pass
};

class RealJob : public ::testing::TestWithParam<Job> {};

TEST_P(RealJob, ItsStepsAreFound) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  auto reader = trace::Reader::open(test::sharedDir() + "/traces/h200-jobs/" + GetParam().file);
  if (!reader) GTEST_SKIP() << reader.status().message();
  auto a = analyze(**reader);
  ASSERT_TRUE(a);
  // Those that warm up are start-up.
  EXPECT_LE(a->steps.size(), GetParam().steps);
  EXPECT_GE(a->steps.size() + 3, GetParam().steps);
  std::vector<double> ms;
  for (const StepResult& s : a->steps) {
    EXPECT_EQ(s.ranks, 4);
    ms.push_back(s.duration_us / 1000);
  }
  EXPECT_NEAR(median(ms), GetParam().step_ms, 0.015 * GetParam().step_ms);
  EXPECT_EQ(a->steps[0].step, 0);
  // What warms up is not counted: as many matrix products in each step.
  for (const KernelResult& k : a->kernels)
    if (k.name.find("xmma_gemm") != k.name.npos && !GetParam().slow) {
      const double per_step = static_cast<double>(k.count) / static_cast<double>(4 * a->steps.size());
      EXPECT_NEAR(per_step, std::round(per_step), 0.05) << k.name;
    }
  const bool launches = std::string(GetParam().file).find("light") == std::string::npos;
  for (const Breakdown& b : a->breakdown) {
    EXPECT_EQ(std::isfinite(b.forward_us), launches);
    if (!launches || GetParam().slow) continue;
    EXPECT_GT(b.backward_us, b.forward_us);
    EXPECT_GT(b.forward_us, b.optimizer_us);
    EXPECT_LT(b.other_us, 0.01 * b.compute_us);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, RealJob,
                         ::testing::Values(Job{"ddp-none.sbt", 40, 187}, Job{"ddp-slow2.sbt", 40, 187.7, true},
                                           Job{"fsdp-none.sbt", 30, 239}, Job{"fsdp-none-light.sbt", 30, 239},
                                           Job{"pp-none-default.sbt", 20, 52.9},
                                           Job{"pp-slow2-default.sbt", 20, 65.9, true},
                                           Job{"pp-slow2-light.sbt", 20, 65.9, true}));

}  // namespace
}  // namespace tracesmith::analysis
