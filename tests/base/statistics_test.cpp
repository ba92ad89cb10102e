#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tracesmith {
namespace {

TEST(Statistics, MedianLiesBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median(std::vector<double>{7}), 7);
}

TEST(Statistics, WhatWasNotMeasuredDoesNotCount) {
  EXPECT_EQ(median({NAN, 2, NAN, 4}), 3);
  EXPECT_TRUE(std::isnan(median(std::vector<double>{})));
  EXPECT_TRUE(std::isnan(median({NAN})));
  EXPECT_TRUE(std::isnan(quantileOfSorted({}, 0.5)));
}

TEST(Statistics, QuantilesAreLinearBetweenNeighbours) {
  const std::vector<double> mixed{40, 10, 30, 20}, sorted{10, 20, 30, 40};
  for (double q : {0.0, 0.1, 0.25, 0.5, 0.8, 0.9, 1.0}) {
    EXPECT_DOUBLE_EQ(quantile(mixed, q), 10 + 30 * q);
    EXPECT_DOUBLE_EQ(quantileOfSorted(sorted, q), 10 + 30 * q);
  }
}

TEST(Statistics, AnUpperQuantileIsOneOfTheValues) {
  EXPECT_EQ(upperQuantileOfSorted({1, 2, 3, 100}, 0.9), 100);
  EXPECT_EQ(upperQuantileOfSorted({1, 2, 3, 100}, 0.5), 3);
  EXPECT_EQ(upperQuantileOfSorted({1, 2, 3, 100}, 1), 100);
}

TEST(Statistics, MedianOfWholeNumbersIsExactFarFromZero) {
  const int64_t far = 1'700'000'000'000'000'001;
  EXPECT_EQ(median(std::vector<int64_t>{far + 4, far, far + 2}), far + 2);
  EXPECT_EQ(median(std::vector<int64_t>{far + 2, far}), far + 1);
  EXPECT_EQ(median(std::vector<uint64_t>{UINT64_MAX, UINT64_MAX - 2}), UINT64_MAX - 1);
}

}  // namespace
}  // namespace tracesmith
