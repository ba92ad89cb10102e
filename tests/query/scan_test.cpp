// The scan against DuckDB's own tables, Parquet, and the prompt.
#include <gtest/gtest.h>

#include <duckdb.hpp>
#include <filesystem>
#include <random>

#include "query/block_scan.hpp"
#include "query/engine_fixture.hpp"
#include "query/prompt.hpp"
#include "query/small_trace.hpp"
#include "support/process.hpp"

namespace tracesmith::query {
namespace {

using test::TempDir;

TEST(Parquet, WritesTheSelectedRowsOrNothing) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  trace::Selection selection;
  selection.from = 5245;  // the kernel at 5200 + rank ends at 5255 + rank
  selection.to = 8000;
  selection.ranks = {1, 2};
  selection.types = 1ull << static_cast<int>(trace::EventType::kernel);
  Status s = engine->exportParquet("events", selection, dir / "out.parquet");
  ASSERT_TRUE(s) << s.message();

  duckdb::DuckDB db;
  duckdb::Connection connection(db);
  auto result = connection.Query("SELECT count(*), min(ts), max(ts), min(type::VARCHAR), sum(grid_x) FROM '" +
                                 (dir / "out.parquet") + "'");
  ASSERT_FALSE(result->HasError()) << result->GetError();
  EXPECT_EQ(result->GetValue(0, 0).ToString(), "6");
  EXPECT_EQ(result->GetValue(1, 0).ToString(), "5201");
  EXPECT_EQ(result->GetValue(2, 0).ToString(), "7202");
  EXPECT_EQ(result->GetValue(3, 0).ToString(), "kernel");
  EXPECT_EQ(result->GetValue(4, 0).ToString(), "42");

  RunOptions options;
  options.format = Format::kParquet;
  options.parquet = dir / "broken.parquet";
  RunReport report;
  EXPECT_FALSE(engine->run("SELECT CASE WHEN ts > 9000 THEN error('stop') ELSE ts END FROM events", options, report));
  EXPECT_FALSE(engine->run("SELECT 1; SELECT 2", options, report));
  EXPECT_FALSE(engine->exportParquet("nothing", {}, dir / "broken.parquet"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    files += entry.path().string().find("broken") != std::string::npos;
  EXPECT_EQ(files, 0u);
  // The way out is closed again.
  EXPECT_NE(ask(*engine, "SELECT * FROM read_parquet('" + (dir / "out.parquet") + "')").find("error"),
            std::string::npos);
}

/// Random conditions have the same answer over blocks as over DuckDB's own table of the same rows.
TEST(Scan, AgreesWithANativeTableOnRandomConditions) {
  TempDir dir;
  for (uint32_t block_rows : {100u, 5000u}) {
    std::mt19937_64 random(block_rows);
    const std::string path = dir / "t.sbt";
    {
      auto writer = std::move(*trace::Writer::create(path, {.block_rows = block_rows}));
      auto appender = writer->appender();
      auto maybe = [&](int64_t v) { return random() % 8 == 0 ? trace::kNull : v; };
      for (int i = 0; i < 12000; ++i) {
        trace::EventRow row;
        row.ts = maybe(i * 10 + static_cast<int64_t>(random() % 100));
        row.dur = maybe(static_cast<int64_t>(random() % 1000));
        row.type = maybe(static_cast<int64_t>(random() % 16));
        row.name = maybe(writer->string("name" + std::to_string(random() % 300)));
        row.node = writer->string("node" + std::to_string(i / 3000));
        row.rank = maybe(i / 1500);
        row.device = maybe(i / 6000 * 3);
        row.step = i / 100;
        row.launch = maybe(writer->string(std::to_string(random() % 50) + ",1,1,2,,3"));
        row.args = maybe(appender->text("t" + std::to_string(random() % 5000)));
        ASSERT_TRUE(appender->append(row));
      }
      ASSERT_TRUE(appender->flush());
      appender.reset();
      ASSERT_TRUE(writer->close());
    }
    auto traces = std::make_shared<TraceSet>();
    ASSERT_TRUE(traces->open({path}));
    duckdb::DuckDB db;
    duckdb::Connection connection(db);
    registerTables(connection, traces);
    auto made = connection.Query("CREATE TABLE native AS SELECT * FROM events");
    ASSERT_FALSE(made->HasError()) << made->GetError();

    auto number = [&](int limit) { return std::to_string(random() % static_cast<unsigned>(limit)); };
    auto oneCondition = [&]() -> std::string {
      static const char* const kCompare[] = {" = ", " <> ", " < ", " <= ", " > ", " >= "};
      std::string op = kCompare[random() % 6];
      switch (random() % 13) {
        case 0:
          return "ts" + op + number(130000);
        case 1:
          return "ts BETWEEN " + number(60000) + " AND " + number(130000);
        case 2:
          return "dur" + op + number(1000);
        case 3:
          return "rank" + op + number(10);
        case 4:
          return "rank IN (" + number(9) + ", " + number(9) + ", 77)";
        case 5:
          return "type" + op + "'" +
                 trace::eventTypeName(static_cast<trace::EventType>(random() % trace::kEventTypes)) + "'";
        case 6:
          return "type IN ('kernel', 'sync', 'nonsense')";
        case 7:
          return "name" + op + "'name" + number(310) + "'";
        case 8:
          return "name LIKE '%" + number(100) + "'";
        case 9:
          return "grid_x" + op + number(50);
        case 10:
          return "ts_end" + op + number(130000);
        case 11: {
          static const char* const kColumns[] = {"ts",   "dur",    "ts_end", "type",      "name",
                                                 "rank", "device", "grid_x", "registers", "args"};
          return std::string(kColumns[random() % 10]) + (random() % 2 ? " IS NULL" : " IS NOT NULL");
        }
        default:
          return "node = 'node" + number(5) + "'";
      }
    };
    for (int i = 0; i < 150; ++i) {
      std::string where = oneCondition();
      for (uint64_t more = random() % 3; more > 0; --more)
        where = random() % 3 ? where + " AND " + oneCondition() : "(" + where + " OR " + oneCondition() + ")";
      if (random() % 10 == 0) where = "NOT (" + where + ")";
      std::string what =
          "SELECT count(*), sum(hash(ts, dur, ts_end, type, name, node, rank)), sum(hash(grid_x, block_x, block_y, "
          "args, step)) FROM ";
      auto blocks = connection.Query(what + "events WHERE " + where);
      auto native = connection.Query(what + "native WHERE " + where);
      ASSERT_FALSE(blocks->HasError()) << where << "\n" << blocks->GetError();
      ASSERT_FALSE(native->HasError()) << where << "\n" << native->GetError();
      ASSERT_EQ(blocks->ToString(), native->ToString()) << where;
    }
    for (const char* sql :
         {"SELECT name, count(*), sum(dur) FROM ? GROUP BY name ORDER BY ALL",
          "SELECT type, rank, max(ts_end) FROM ? GROUP BY ALL ORDER BY ALL",
          "SELECT ts, name FROM ? ORDER BY ts DESC NULLS LAST, name LIMIT 7",
          "SELECT count(*), sum(a.ts) FROM ? a JOIN ? b ON a.name = b.name AND a.rank = b.rank WHERE a.dur < 50",
          "SELECT grid_x, count(DISTINCT name) FROM ? WHERE dur > 500 GROUP BY ALL ORDER BY ALL"}) {
      std::string blocks = duckdb::StringUtil::Replace(sql, "?", "events"),
                  native = duckdb::StringUtil::Replace(sql, "?", "native");
      EXPECT_EQ(connection.Query(blocks)->ToString(), connection.Query(native)->ToString()) << blocks;
    }
  }
}

TEST(Prompt, KnowsWhenAStatementIsWhole) {
  EXPECT_TRUE(isComplete("SELECT 1;"));
  EXPECT_TRUE(isComplete("SELECT 1; -- done"));
  EXPECT_TRUE(isComplete("SELECT ';';"));
  EXPECT_TRUE(isComplete("SELECT 'it''s'; /* ; */ "));
  EXPECT_FALSE(isComplete("SELECT 1"));
  EXPECT_FALSE(isComplete("SELECT ';"));
  EXPECT_FALSE(isComplete("SELECT 1 -- ;"));
  EXPECT_FALSE(isComplete("SELECT 1 /* ;"));
  EXPECT_FALSE(isComplete("SELECT 1; SELECT 2"));
}

}  // namespace
}  // namespace tracesmith::query
