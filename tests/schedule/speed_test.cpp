#include "schedule/speed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tracesmith::schedule {
namespace {

/// A rank whose steps take fixed + per sample * n.
class Speed : public ::testing::Test {
 protected:
  void steps(int count, int64_t samples, double busy_s) {
    for (int i = 0; i < count; ++i) {
      const Status status = tracker_.add({step_++, samples, busy_s, 1000});
      ASSERT_TRUE(status) << status.message();
    }
  }

  SpeedTracker tracker_;
  int64_t step_ = 0;
};

TEST_F(Speed, IsSamplesBySecond) {
  EXPECT_FALSE(tracker_.known());
  EXPECT_EQ(tracker_.speed(), 0);
  steps(4, 32, 0.25);
  EXPECT_DOUBLE_EQ(tracker_.speed(), 128);
  EXPECT_EQ(tracker_.stepsAtBatch(), 4);
}

TEST_F(Speed, DoesNotChangeWithTheBatch) {
  steps(6, 32, 0.1 + 32 * 0.01);
  steps(6, 64, 0.1 + 64 * 0.01);
  EXPECT_EQ(tracker_.changes(), 0);
  EXPECT_NEAR(tracker_.cost().fixed_s, 0.1, 1e-9);
  EXPECT_NEAR(tracker_.cost().per_sample_s, 0.01, 1e-9);
  EXPECT_NEAR(tracker_.cost().time(16), 0.26, 1e-9);
}

TEST_F(Speed, ASlowFirstStepAndSingleStallsCountForNothing) {
  steps(1, 32, 5);
  steps(5, 32, 0.2);
  EXPECT_NEAR(tracker_.cost().time(32), 0.2, 1e-9);
  steps(1, 32, 3);
  steps(2, 32, 0.2);
  steps(2, 32, 0.9);
  steps(1, 32, 0.2);
  EXPECT_NEAR(tracker_.cost().time(32), 0.2, 1e-9);
  EXPECT_EQ(tracker_.changes(), 0);
}

TEST_F(Speed, ADeviceThatThrottlesIsSeenAfterThreeSteps) {
  steps(10, 32, 0.1 + 0.32);
  steps(10, 64, 0.1 + 0.64);
  steps(2, 64, 1.48);
  EXPECT_EQ(tracker_.changes(), 0);
  steps(1, 64, 1.48);
  EXPECT_EQ(tracker_.changes(), 1);
  EXPECT_EQ(tracker_.lastChange(), step_ - 1);
  EXPECT_EQ(tracker_.steps(), 3);
  EXPECT_NEAR(tracker_.cost().time(64), 1.48, 1e-9);
  // Half as fast in other batches too, before they are measured.
  EXPECT_NEAR(tracker_.cost().time(32), 0.84, 1e-9);
  steps(3, 64, 0.74);
  EXPECT_EQ(tracker_.changes(), 2);
  EXPECT_NEAR(tracker_.cost().time(64), 0.74, 1e-9);
}

TEST_F(Speed, NoiseOfTwentiethsIsNoChange) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(1, 0.05);
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(tracker_.add({i, 32, 0.2 * noise(random), 1}));
  EXPECT_EQ(tracker_.changes(), 0);
  EXPECT_FALSE(tracker_.slowSince());
  EXPECT_NEAR(tracker_.speed(), 160, 8);
}

TEST_F(Speed, IsSlowFromTheThirdSlowStepUntilItRecovers) {
  steps(10, 32, 0.2);
  EXPECT_FALSE(tracker_.slowSince());
  EXPECT_DOUBLE_EQ(tracker_.slowdown(), 1);
  steps(3, 32, 0.32);
  EXPECT_EQ(tracker_.slowSince(), 10);
  EXPECT_NEAR(tracker_.slowdown(), 1.6, 1e-9);
  steps(10, 16, 0.16);  // the plan gives it less: it is as slow as before
  EXPECT_EQ(tracker_.slowSince(), 10);
  EXPECT_NEAR(tracker_.slowdown(), 1.6, 1e-9);
  steps(3, 16, 0.1);
  EXPECT_FALSE(tracker_.slowSince());
  steps(5, 32, 0.2);
  EXPECT_FALSE(tracker_.slowSince());
  EXPECT_NEAR(tracker_.slowdown(), 1, 1e-6);
}

TEST_F(Speed, ARankThatWasSlowFromTheBeginningAndBecomesFastIsNotSlowAfterwards) {
  steps(10, 32, 0.4);
  steps(10, 32, 0.2);
  EXPECT_FALSE(tracker_.slowSince());
  steps(3, 32, 0.4);
  EXPECT_EQ(tracker_.slowSince(), 20);
}

TEST_F(Speed, ARankThatBecomesSlowLittleByLittleIsSlowInTheEnd) {
  steps(20, 32, 0.2);
  for (double busy_s = 0.2; busy_s < 0.3; busy_s *= 1.005) steps(1, 32, busy_s);
  EXPECT_TRUE(tracker_.slowSince());
  EXPECT_GT(tracker_.slowdown(), 1.3);
}

TEST_F(Speed, IsSeenToChangeAlsoIfTheBatchChangesALittleAtTheSameTime) {
  steps(10, 64, 0.64);
  steps(3, 66, 1.32);
  EXPECT_EQ(tracker_.changes(), 1);
  EXPECT_EQ(tracker_.slowSince(), 10);
  EXPECT_NEAR(tracker_.cost().time(64), 1.28, 1e-9);
}

TEST_F(Speed, WhoChangesToAndFroIsPlannedForTheTimesThatCostMore) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(tracker_.unsteady());
    steps(12, 32, 0.2);
    EXPECT_NEAR(tracker_.costToPlan(0.4).time(32), 0.2, 1e-9);
    steps(12, 32, 0.32);
  }
  EXPECT_TRUE(tracker_.unsteady());
  steps(12, 32, 0.2);
  EXPECT_NEAR(tracker_.cost().time(32), 0.2, 1e-9);
  EXPECT_NEAR(tracker_.costToPlan(0.4).time(32), 0.32, 1e-6);
  EXPECT_NEAR(tracker_.costToPlan(0.9).time(32), 0.2, 1e-6);  // the others cannot take its samples
  steps(3, 32, 0.32);
  EXPECT_NEAR(tracker_.costToPlan(0.9).time(32), 0.2, 1e-6);
  steps(100, 32, 0.32);
  EXPECT_FALSE(tracker_.unsteady());
  EXPECT_NEAR(tracker_.costToPlan(0.9).time(32), 0.32, 1e-6);
}

TEST_F(Speed, WhoIsSeldomSlowIsPlannedForItsFastTimes) {
  for (int i = 0; i < 5; ++i) {
    steps(30, 32, 0.2);
    steps(6, 32, 0.32);
  }
  EXPECT_TRUE(tracker_.unsteady());
  EXPECT_NEAR(tracker_.cost().time(32), 0.32, 1e-9);
  EXPECT_NEAR(tracker_.costToPlan(0.4).time(32), 0.2, 1e-6);
}

TEST_F(Speed, WhatIsNoTimeIsRefusedAndCounted) {
  steps(5, 32, 0.2);
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity, 0.0, -1.0}) EXPECT_FALSE(tracker_.add({9, 32, bad, 1}));
  EXPECT_FALSE(tracker_.add({9, 0, 0.2, 1}));
  EXPECT_FALSE(tracker_.add({9, -4, 0.2, 1}));
  EXPECT_FALSE(tracker_.add({-1, 32, 0.2, 1}));
  EXPECT_FALSE(tracker_.add({9, 32, 0.2, nan}));
  const Status longer = tracker_.add({9, 32, 2, 1});  // nobody is busy for longer than the step
  EXPECT_EQ(longer.message(), "step 9: 32 samples in 2.000000 s of a step of 1.000000 s is no measurement");
  EXPECT_EQ(tracker_.refused(), 10);
  EXPECT_NEAR(tracker_.speed(), 160, 1e-6);
}

}  // namespace
}  // namespace tracesmith::schedule
