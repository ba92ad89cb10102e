#include "sync/clock_limits.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tracesmith::sync {
namespace {

TEST(LineLimits, TheTightestOnEachSideCount) {
  LineLimits limits;
  for (double t = 0; t <= 100; t += 10) {
    limits.atMost(t, 5 + 0.1 * t + (t == 50 ? 0 : 3));
    limits.atLeast(t, 1 + 0.1 * t - (t == 50 ? 0 : 3));
  }
  const auto middle = limits.at(50, 1);
  ASSERT_TRUE(middle);
  EXPECT_NEAR(middle->low, 6, 1e-3);
  EXPECT_NEAR(middle->high, 10, 1e-3);
  const auto later = limits.at(100, 1);
  ASSERT_TRUE(later);
  EXPECT_LT(later->low, 11);
  EXPECT_GT(later->high, 15);
}

TEST(LineLimits, NothingFitsBetweenCrossedLimits) {
  LineLimits limits;
  limits.atMost(10, 1);
  limits.atLeast(10, 2);
  EXPECT_FALSE(limits.at(0, 1e-3));
}

TEST(LineLimits, OneSideOnlyIsOpenOnTheOther) {
  LineLimits limits;
  limits.atMost(0, 4);
  const auto range = limits.at(0, 1e-4);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->low, -INFINITY);
  EXPECT_DOUBLE_EQ(range->high, 4);
}

TEST(LineLimits, ThinningKeepsTheTightest) {
  LineLimits limits;
  for (int i = 0; i < 1000; ++i) {
    limits.atMost(i, i == 500 ? 1 : 10);
    limits.atLeast(i, -10);
  }
  const auto before = limits.at(500, 1e-3);
  limits.thin(0, 1000, 8);
  const auto after = limits.at(500, 1e-3);
  EXPECT_NEAR(before->high, after->high, 1e-6);
  EXPECT_NEAR(before->high, 1, 1e-6);
}

TEST(Differences, GoOverOthers) {
  Differences d(3);
  d.atMost(0, 1, 5);
  d.atMost(1, 0, -3);  // 3 ≤ x1 − x0 ≤ 5
  d.atMost(1, 2, 2);
  d.atMost(2, 1, 0);  // 0 ≤ x2 − x1 ≤ 2
  ASSERT_TRUE(d.close());
  EXPECT_DOUBLE_EQ(d.range(0, 2).low, 3);
  EXPECT_DOUBLE_EQ(d.range(0, 2).high, 7);
}

TEST(Differences, ACircleThatCannotBeIsFound) {
  Differences d(3);
  d.atMost(0, 1, 1);
  d.atMost(1, 2, 1);
  d.atMost(2, 0, -3);
  EXPECT_FALSE(d.close());
}

}  // namespace
}  // namespace tracesmith::sync
