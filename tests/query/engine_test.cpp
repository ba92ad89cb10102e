// The engine itself: damage, odd values, cancelling, memory.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "query/engine_fixture.hpp"
#include "query/small_trace.hpp"
#include "support/process.hpp"
#include "trace/clocks.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::query {
namespace {

using test::TempDir;

TEST(Engine, RefusesAnotherVersionOfTheProgram) {
  const char* why = "";
  EXPECT_EQ(tracesmithCreateQueryEngine("query 0", &why), nullptr);
  EXPECT_NE(std::string(why).find("another version"), std::string::npos);
}

TEST(Engine, HasTheSameReferenceTimesAsTheReaders) {
  TempDir dir;
  constexpr int64_t kS = 1'000'000'000;
  {
    auto writer = trace::Writer::create(dir / "t.sbt");
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    auto add = [&](const char* node, int64_t from, int64_t offset, double drift, int64_t bound, const char* method) {
      trace::ClockRow row;
      row.node = (*writer)->string(node);
      row.ts_from = from;
      row.offset_ns = offset;
      row.drift_ppm = trace::real(drift);
      row.bound_ns = bound;
      row.method = (*writer)->string(method);
      EXPECT_TRUE(out->append(row));
    };
    add("a", 0, 7'000'000, 0, trace::kNull, "system clock");  // before its agent had asked the master
    add("a", kS, 1000, 12.5, 3000, "exchange");
    add("a", 3 * kS, 1100, -40, 3000, "exchange");
    add("b", 0, 2000, 100, 9000, "exchange");
    add("b", 2 * kS, 2500, -3.25, 400, "collectives");  // begins later, and reaches back
    add("c", kS, 5, 0, trace::kNull, "system clock");
    ASSERT_TRUE(out->flush());
    ASSERT_TRUE((*writer)->close());
  }
  auto reader = trace::Reader::open(dir / "t.sbt");
  ASSERT_TRUE(reader);
  Result<trace::Clocks> clocks = trace::readClocks(**reader);
  ASSERT_TRUE(clocks);
  std::unique_ptr<Engine> engine = openEngine({dir / "t.sbt"});
  for (const char* node : {"a", "b", "c", "unknown"})
    for (int64_t ts : {int64_t{0}, kS / 2, kS, 2 * kS - 1, 2 * kS, 5 * kS})
      EXPECT_EQ(ask(*engine, "SELECT reference_ts('" + std::string(node) + "', " + std::to_string(ts) + ")"),
                std::to_string(trace::clockOf(*clocks, node).toReference(ts)) + "\n")
          << node << " at " << ts;
}

TEST(Engine, LeavesDamagedBlocksOutAndSaysSo) {
  TempDir dir;
  const std::string path = dir / "t.sbt";
  test::writeSmallTrace(path);
  uint64_t offset;
  {
    auto reader = std::move(*trace::Reader::open(path));
    const trace::Block* block = reader->blocks(trace::tableOf<trace::EventRow>())[1];  // device rows of rank 0
    offset = block->offset + block->size - 16;
  }
  std::string bytes = test::readFile(path);
  for (int i = 0; i < 16; ++i) bytes[offset + i] = static_cast<char>(bytes[offset + i] ^ 0x55);
  test::writeFile(path, bytes);
  auto engine = openEngine({path});
  EXPECT_TRUE(engine->damage().empty());
  EXPECT_EQ(
      ask(*engine, "SELECT count(*), sum(hash(COLUMNS(*))) IS NULL FROM events WHERE type = 'kernel'").substr(0, 3),
      "30,");
  ASSERT_EQ(engine->damage().size(), 1u);
  EXPECT_NE(engine->damage()[0].find("1 damaged place was left out"), std::string::npos) << engine->damage()[0];
}

TEST(Engine, TellsLosses) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  EXPECT_EQ(openEngine({dir / "t.sbt"})->notes(),
            std::vector<std::string>{"t.sbt lost 12 records: see the table losses"});
}

TEST(Engine, KnowsBandwidth) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  auto value = [&](const std::string& sql) { return ask(*engine, "SELECT " + sql); };
  EXPECT_EQ(value("algbw_gbps('all_reduce', 8000, 4, 1000)"), "8.0\n");
  EXPECT_EQ(value("busbw_gbps('all_reduce', 8000, 4, 1000)"), "12.0\n");
  EXPECT_EQ(value("algbw_gbps('all_gather', 8000, 4, 1000)"), "32.0\n");
  EXPECT_EQ(value("busbw_gbps('all_gather', 8000, 4, 1000)"), "24.0\n");
  EXPECT_EQ(value("algbw_gbps('all_to_all', 8000, 4, 1000)"), "8.0\n");
  EXPECT_EQ(value("busbw_gbps('all_to_all', 8000, 4, 1000)"), "6.0\n");
  EXPECT_EQ(value("busbw_gbps('send', 8000, 4, 1000)"), "8.0\n");
  EXPECT_EQ(value("busbw_gbps('send', 8000, NULL, 1000)"), "8.0\n");
  for (const char* none : {"'all_reduce', 8000, 1", "'all_reduce', 8000, 0", "'all_reduce', 8000, NULL",
                           "'all_reduce', NULL, 4", "'barrier', 8000, 4", "'dispatch', 8000, 4", "NULL, 8000, 4"})
    EXPECT_EQ(value(std::string("algbw_gbps(") + none + ", 1000) IS NULL"), "true\n") << none;
  EXPECT_EQ(value("busbw_gbps('send', 8000, 4, 0) IS NULL"), "true\n");
  EXPECT_EQ(value("busbw_gbps('send', 8000, 4, NULL) IS NULL"), "true\n");
}

TEST(Engine, KnowsCommunicationKernels) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  auto value = [&](const std::string& name) { return ask(*engine, "SELECT is_communication(" + name + ")"); };
  for (const char* name :
       {"'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'", "'void deep_ep::intranode::dispatch<8>(int*)'"})
    EXPECT_EQ(value(name), "true\n") << name;
  for (const char* name : {"'void gemm<float>()'", "''", "NULL"}) EXPECT_EQ(value(name), "false\n") << name;
}

TEST(Engine, ReadsOddValues) {
  TempDir dir;
  {
    auto writer = std::move(*trace::Writer::create(dir / "t.sbt"));
    auto appender = writer->appender();
    trace::EventRow row;
    row.ts = INT64_MAX;
    row.type = 40;     // of a newer version
    row.name = 12345;  // an id without a string
    ASSERT_TRUE(appender->append(row));
    row.ts = INT64_MIN + 1;
    row.type = 0;
    row.name = writer->string("bad \xff\xfe name");
    row.node = writer->string("größe");
    row.args = appender->text("bad \xc3");
    row.launch = writer->string("1,2,nonsense");
    ASSERT_TRUE(appender->append(row));
    ASSERT_TRUE(appender->flush());
    appender.reset();
    ASSERT_TRUE(writer->close());
  }
  auto engine = openEngine({dir / "t.sbt"});
  EXPECT_EQ(ask(*engine, "SELECT ts, type, name, node, args, grid_z FROM events ORDER BY ts"),
            "-9223372036854775807,kernel,bad ?? name,größe,bad ?,\n9223372036854775807,other,,,,\n");
  EXPECT_EQ(ask(*engine, "SELECT count(*) FROM events WHERE type = 'other'"), "1\n");
  EXPECT_EQ(ask(*engine, "SELECT count(*) FROM events WHERE name IS NULL"), "1\n");
  EXPECT_EQ(ask(*engine, "SELECT name, length(node) FROM events WHERE name LIKE 'bad%'"), "bad ?? name,5\n");
}

TEST(Engine, WritesJsonWithExactIntegers) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  EXPECT_EQ(ask(*engine,
                "SELECT 9007199254740993 AS big, sum(9223372036854775807) AS huge, NULL AS n, 0.1::DOUBLE AS d, "
                "1.50::DECIMAL(5,2) AS e, "
                "[1, NULL] AS l, {'a': 'x\"y'} AS s, any_value(type) AS t, true AS b FROM events WHERE type = 'marker'",
                Format::kJson),
            "[\n{\"big\":9007199254740993,\"huge\":36893488147419103228,\"n\":null,\"d\":0.1,\"e\":1.50,\"l\":[1,null],"
            "\"s\":{\"a\":\"x\\\"y\"},\"t\":\"marker\",\"b\":true}\n]\n");
  EXPECT_EQ(ask(*engine, "SELECT 1 AS a WHERE false", Format::kJson), "[]\n");
}

TEST(Engine, ShowsTablesWithTheFirstAndLastRows) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  RunOptions options;
  options.max_rows = 4;
  std::string out;
  options.write = [&](std::string_view bytes) {
    out += bytes;
    return Status();
  };
  RunReport report;
  ASSERT_TRUE(engine->run("SELECT range AS n, 'é' AS e FROM range(5000)", options, report));
  EXPECT_EQ(report.rows, 5000u);
  EXPECT_EQ(out,
            "┌────────┬─────────┐\n│   n    │    e    │\n│ bigint │ varchar │\n├────────┼─────────┤\n│      0 │ é      "
            " │\n│      1 │ é       │\n"
            "│   ·    │    ·    │\n│   4998 │ é       │\n│   4999 │ é       │\n└────────┴─────────┘\n"
            "5,000 rows (4 shown; --max-rows 0 or another --format shows all)\n");
}

TEST(Engine, CanBeInterruptedAndUsedAgain) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  std::atomic<bool> done{false};
  std::thread interrupter([&] {
    while (!done) {
      engine->interrupt();
      std::this_thread::yield();
    }
  });
  std::string answer =
      ask(*engine, "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range + b.range = 7");
  done = true;
  interrupter.join();
  EXPECT_EQ(answer, "error: the query was cancelled");
  EXPECT_EQ(ask(*engine, "SELECT 1"), "1\n");
}

TEST(Engine, StopsWhenTheOutputFails) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"});
  RunOptions options;
  options.format = Format::kCsv;
  options.write = [](std::string_view) { return Status::io("disk full"); };
  RunReport report;
  Status s = engine->run("SELECT * FROM range(1000000000000)", options, report);
  EXPECT_EQ(s.message(), "disk full");
  EXPECT_EQ(ask(*engine, "SELECT 2"), "2\n");
}

TEST(Engine, SpillsWithinItsMemoryAndCleansUp) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  ::setenv("TMPDIR", dir.path().c_str(), 1);
  {
    auto engine = openEngine({dir / "t.sbt"}, {.memory = "48MB", .threads = 2});
    EXPECT_EQ(ask(*engine,
                  "SELECT count(*), max(r) FROM (SELECT range AS r, hash(range) AS h, repeat('x', 20) FROM "
                  "range(2000000) ORDER BY h)"),
              "2000000,1999999\n");
  }
  if (before.empty())
    ::unsetenv("TMPDIR");
  else
    ::setenv("TMPDIR", before.c_str(), 1);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) files += entry.path().filename() != "t.sbt";
  EXPECT_EQ(files, 0u);
}

TEST(Engine, SaysWhenMemoryIsNotEnough) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  auto engine = openEngine({dir / "t.sbt"}, {.memory = "10MB"});
  std::string answer = ask(*engine, "SELECT list(range) FROM range(20000000)");
  EXPECT_TRUE(answer.starts_with("error: the query needs more than it may take: failed to allocate")) << answer;
  EXPECT_EQ(answer.find('\n'), std::string::npos) << answer;
}

}  // namespace
}  // namespace tracesmith::query
