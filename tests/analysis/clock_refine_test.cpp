// Clocks that are known badly, and collectives whose true times are known: how far off are we then?
#include "analysis/clocks/clock_refine.hpp"

#include <gtest/gtest.h>

#include "analysis/clock_job.hpp"

namespace tracesmith::analysis {
namespace {

using test::clockErrors;
using test::makeClockJob;

TEST(ClockRefine, IsWithinMicrosecondsWhereTheTraceWasNot) {
  test::MadeClockJob m = makeClockJob({});
  const test::ClockErrors before = clockErrors(m, m.given, "node0");
  const Refinement r = refineClocks(m.table, m.given);
  ASSERT_TRUE(r.used);
  EXPECT_TRUE(r.faults.empty());
  const test::ClockErrors after = clockErrors(m, m.given, r.reference);
  EXPECT_GT(before.worst, 100'000);
  EXPECT_LT(after.worst, 5000);
  EXPECT_LT(after.bound, 60'000);
  EXPECT_LE(after.broken, 0);
  EXPECT_LT(r.bound_after_ns, r.bound_before_ns);
  EXPECT_EQ(m.given["node1"].models().front().method, "collectives");
}

TEST(ClockRefine, ANodeThatIsNearlyAlwaysLastIsNoTrouble) {
  test::MadeClockJob m = makeClockJob({.slow_node = 2});
  const Refinement r = refineClocks(m.table, m.given);
  ASSERT_TRUE(r.used);
  const test::ClockErrors after = clockErrors(m, m.given, r.reference);
  EXPECT_LT(after.worst, 5000);
  EXPECT_LE(after.broken, 0);
}

TEST(ClockRefine, LongJobsHaveSeveralLines) {
  test::MadeClockJob m = makeClockJob({.collectives = 2000, .seconds = 300});
  const Refinement r = refineClocks(m.table, m.given);
  ASSERT_TRUE(r.used);
  EXPECT_GE(m.given["node1"].models().size(), 4u);
  const test::ClockErrors after = clockErrors(m, m.given, r.reference);
  EXPECT_LT(after.worst, 5000);
  EXPECT_LE(after.broken, 0);
}

TEST(ClockRefine, LeavesBetterClocksAlone) {
  test::MadeClockJob m = makeClockJob({.bound_ns = 2000, .error = 0.1});
  EXPECT_FALSE(refineClocks(m.table, m.given).used);
  EXPECT_EQ(m.given["node1"].models().front().method, "exchange");
}

TEST(ClockRefine, AClockThatCannotBeIsAFault) {
  test::MadeClockJob m = makeClockJob({.outside_ns = 5'000'000});
  const Refinement r = refineClocks(m.table, m.given);
  EXPECT_FALSE(r.used);
  ASSERT_EQ(r.faults.size(), 1u);
  EXPECT_NE(r.faults[0].find("node1"), std::string::npos) << r.faults[0];
  EXPECT_NE(r.faults[0].find("further apart than their bounds"), std::string::npos) << r.faults[0];
}

TEST(ClockRefine, ManyNodesAreTiedByAFewPairsEach) {
  test::MadeClockJob m = makeClockJob({.nodes = 100, .ranks_per_node = 1, .collectives = 100});
  const Refinement r = refineClocks(m.table, m.given);
  ASSERT_TRUE(r.used);
  const test::ClockErrors after = clockErrors(m, m.given, r.reference);
  EXPECT_LT(after.worst, 6000);
  EXPECT_LE(after.broken, 0);
}

}  // namespace
}  // namespace tracesmith::analysis
