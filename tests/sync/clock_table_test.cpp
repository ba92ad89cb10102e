#include "sync/clock_table.hpp"

#include <gtest/gtest.h>

namespace tracesmith::sync {
namespace {

constexpr int64_t kS = 1'000'000'000;

TEST(ClockTable, BetweenTwoModelsThatAgreeTheLaterCounts) {
  ClockTable table;
  table.add({0, 1000, 900, 600'000});        // of a first burst: its drift is anything
  table.add({kS, 1000 + 50'000, 50, 3000});  // 50 ppm, as it is
  EXPECT_EQ(table.toReference(kS / 2), kS / 2 + 1000 + 450'000);
  table.preferLater();
  EXPECT_EQ(table.toReference(kS / 2), kS / 2 + 1000 + 25'000);
  EXPECT_EQ(table.toRaw(kS / 2 + 26'000), kS / 2);
  EXPECT_EQ(table.toReference(2 * kS), 2 * kS + 1000 + 100'000) << "after it nothing changes";
  EXPECT_EQ(table.boundAt(kS / 2), 3000);
}

TEST(ClockTable, AcrossAStepAndOverALongTimeItDoesNot) {
  ClockTable table;
  table.add({0, 0, 0, 3000});
  table.add({kS, 2'000'000, 0, 3000});        // the clock was set by 2 ms
  table.add({100 * kS, 2'000'100, 0, 3000});  // nobody knew for a while
  table.preferLater();
  EXPECT_EQ(table.toReference(kS / 2), kS / 2);
  EXPECT_EQ(table.toReference(50 * kS), 50 * kS + 2'000'000);
}

}  // namespace
}  // namespace tracesmith::sync
