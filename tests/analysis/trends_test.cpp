// How sure it is that a rank stands out.
#include "analysis/rows/trends.hpp"

#include <gtest/gtest.h>

namespace tracesmith::analysis {
namespace {

constexpr double kScatter = 0.003;

/// Four ranks that lie so much above each other all along, and vary a little from step to step.
Series ranks(std::vector<double> levels, size_t steps = 30) {
  Series out;
  for (size_t r = 0; r < levels.size(); ++r) {
    out.rows.emplace_back();
    for (size_t s = 0; s < steps; ++s)
      out.rows.back().push_back(0.02 + levels[r] + 0.0005 * static_cast<double>((7 * s + 3 * r) % 5));
  }
  return out;
}

TEST(Trends, WhatIsLittleMoreThanRanksDifferIsNotSure) {
  const Series series = ranks({0, -0.001, 0.002, 0.018});
  EXPECT_GT(trendsOf(series, false)[3].sureness, 50) << "it hardly varies from step to step";
  EXPECT_LT(trendsOf(series, false, {}, kScatter)[3].sureness, 7);
  EXPECT_GT(trendsOf(ranks({0, -0.001, 0.002, 0.06}), false, {}, kScatter)[3].sureness, 15);
}

TEST(Trends, RanksThatDifferMuchTellLess) {
  const double alike = trendsOf(ranks({0, -0.001, 0.002, 0.06}), false, {}, kScatter)[3].sureness;
  EXPECT_LT(trendsOf(ranks({0, -0.02, 0.02, 0.06}), false, {}, kScatter)[3].sureness, alike / 3);
}

TEST(Trends, OneOtherIsEnough) { EXPECT_GT(trendsOf(ranks({0, 0.06}), false, {}, kScatter)[1].sureness, 15); }

TEST(Trends, OneStepIsNoTrend) {
  Series series = ranks({0, 0.001, 0, 0}, 8);
  series.rows[3][4] += 0.25;
  const Trend t = trendsOf(series, false, {}, kScatter)[3];
  EXPECT_GT(t.excess, 0.02);
  EXPECT_LT(t.sureness, 2);
}

}  // namespace
}  // namespace tracesmith::analysis
