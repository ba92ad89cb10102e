#include "trace/clocks.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::trace {
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

TEST(Clocks, OfATraceAreTheBestThatIsKnown) {
  test::TempDir dir;
  {
    auto writer = trace::Writer::create(dir / "t.sbt", {});
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    auto add = [&](const char* node, int64_t from, int64_t offset, int64_t bound, const char* method) {
      trace::ClockRow row;
      row.node = (*writer)->string(node);
      row.ts_from = from;
      row.offset_ns = offset;
      row.bound_ns = bound;
      row.method = (*writer)->string(method);
      EXPECT_TRUE(out->append(row));
    };
    add("a", 0, 7'000'000, trace::kNull, "system clock");  // before its agent had asked the master
    add("a", kS, 1000, 3000, "exchange");
    add("b", 0, 2000, 9000, "exchange");
    add("b", 0, 2500, 400, "collectives");
    add("alone", 0, 5, trace::kNull, "system clock");
    ASSERT_TRUE(out->flush());
    ASSERT_TRUE((*writer)->close());
  }
  auto reader = trace::Reader::open(dir / "t.sbt");
  ASSERT_TRUE(reader);
  Result<Clocks> clocks = readClocks(**reader);
  ASSERT_TRUE(clocks);
  EXPECT_EQ(clockOf(*clocks, "a").toReference(10), 1010) << "the first that is known reaches back";
  EXPECT_EQ(clockOf(*clocks, "a").models().back().method, "exchange");
  EXPECT_EQ(clockOf(*clocks, "b").toReference(10), 2510);
  EXPECT_TRUE(clockOf(*clocks, "b").refined());
  EXPECT_EQ(clockOf(*clocks, "alone").toReference(10), 15) << "badly known is better than not at all";
  EXPECT_EQ(clockOf(*clocks, "nobody").toReference(10), 10);
  EXPECT_EQ(worstBound(*clocks), INT64_MAX);
  clocks->erase("alone");
  EXPECT_EQ(worstBound(*clocks), 3000);
}

}  // namespace
}  // namespace tracesmith::trace
