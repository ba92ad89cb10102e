#include "trace/join.hpp"

#include <gtest/gtest.h>

#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "support/table.hpp"

namespace tracesmith {
namespace {

using test::losses;
using test::readFile;
using test::Row;
using test::rows;
using test::TempDir;
using test::writeFile;

/// Names, kernels and texts of a table, in the order of the file.
std::vector<std::string> said(const std::string& trace) {
  std::vector<std::string> all;
  for (const Row& row : rows(trace, "events"))
    all.push_back(row.s("name") + " " + row.s("node") + " " + std::to_string(row.i("ts")) + " " + row.s("args"));
  return all;
}

TEST(Join, HasTheRowsOfAllPartsWithTheirNames) {
  TempDir dir;
  test::writeSampleTrace(dir / "a.sbt");
  test::writeSampleTrace(dir / "b.sbt", {.steps = 7, .block_rows = 16});
  const Result<trace::JoinReport> report = trace::joinTraces({dir / "a.sbt", dir / "b.sbt"}, dir / "all.sbt");
  ASSERT_TRUE(report) << report.status().message();
  std::vector<std::string> both = said(dir / "a.sbt");
  for (const std::string& line : said(dir / "b.sbt")) both.push_back(line);
  EXPECT_EQ(said(dir / "all.sbt"), both);
  EXPECT_EQ(report->parts, 2u);
  EXPECT_EQ(report->nodes, 2u);
  EXPECT_EQ(report->events, both.size());
  EXPECT_TRUE(report->problems.empty());
  for (const char* table : {"steps", "collectives", "processes", "metrics"})
    EXPECT_EQ(rows(dir / "all.sbt", table).size(),
              rows(dir / "a.sbt", table).size() + rows(dir / "b.sbt", table).size())
        << table;
}

TEST(Join, DescribesANodeAndItsClockOnce) {
  TempDir dir;
  test::writeSampleTrace(dir / "a.sbt");
  ASSERT_TRUE(trace::joinTraces({dir / "a.sbt", dir / "a.sbt", dir / "a.sbt"}, dir / "all.sbt"));
  for (const char* table : {"nodes", "clocks"}) {
    const std::vector<Row> once = rows(dir / "a.sbt", table), joined = rows(dir / "all.sbt", table);
    ASSERT_EQ(joined.size(), once.size()) << table;
    for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(joined[i].s("node"), once[i].s("node")) << table;
  }
  EXPECT_EQ(rows(dir / "all.sbt", "clocks")[1].i("offset_ns"), rows(dir / "a.sbt", "clocks")[1].i("offset_ns"));
}

TEST(Join, ReadsAPartUpToWhereItWasCut) {
  TempDir dir;
  test::writeSampleTrace(dir / "a.sbt", {.block_rows = 16});
  const std::string whole = readFile(dir / "a.sbt");
  writeFile(dir / "cut.sbt", whole.substr(0, whole.size() * 2 / 3));
  const Result<trace::JoinReport> report = trace::joinTraces({dir / "a.sbt", dir / "cut.sbt"}, dir / "all.sbt");
  ASSERT_TRUE(report) << report.status().message();
  ASSERT_EQ(report->problems.size(), 1u);
  const std::map<std::string, int64_t> before = losses(dir / "a.sbt"), lost = losses(dir / "all.sbt");
  EXPECT_EQ(lost.at("damaged"), (before.contains("damaged") ? before.at("damaged") : 0) + 1);
  EXPECT_GT(rows(dir / "all.sbt", "events").size(), rows(dir / "a.sbt", "events").size());
}

TEST(Join, GoesOnAfterADamagedBlock) {
  TempDir dir;
  test::writeSampleTrace(dir / "a.sbt", {.block_rows = 16});
  test::writeSampleTrace(dir / "b.sbt", {.block_rows = 16});
  ASSERT_TRUE(test::damageBlock(dir / "b.sbt", "events", 1));
  const Result<trace::JoinReport> report = trace::joinTraces({dir / "a.sbt", dir / "b.sbt"}, dir / "all.sbt");
  ASSERT_TRUE(report) << report.status().message();
  EXPECT_EQ(report->problems.size(), 1u);
  EXPECT_EQ(rows(dir / "all.sbt", "events").size() % 16, (2 * rows(dir / "a.sbt", "events").size() - 16) % 16);
}

TEST(Join, TellsThatAFileIsNoTrace) {
  TempDir dir;
  test::writeSampleTrace(dir / "a.sbt");
  writeFile(dir / "b.sbt", "no trace at all, but long enough to have a header, if it were one: 0123456789");
  const Result<trace::JoinReport> report = trace::joinTraces({dir / "a.sbt", dir / "b.sbt"}, dir / "all.sbt");
  ASSERT_TRUE(report) << report.status().message();
  ASSERT_EQ(report->problems.size(), 1u);
  EXPECT_NE(report->problems[0].find("b.sbt"), std::string::npos) << report->problems[0];
}

}  // namespace
}  // namespace tracesmith
