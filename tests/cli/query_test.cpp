// `tracesmith query` as users run it.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "query/small_trace.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::cli {
namespace {

using test::Output;
using test::TempDir;
using test::tracesmith;

class QueryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TRACESMITH_HAS_QUERY) GTEST_SKIP() << "built without SQL";
    test::writeSmallTrace(trace_);
  }
  TempDir dir_;
  const std::string trace_ = dir_ / "t.sbt";
  const std::string sql_ =
      "SELECT rank, count(*) AS n FROM events WHERE type = 'kernel' AND rank < 2 GROUP BY rank ORDER BY rank";
};

TEST_F(QueryTest, WritesCsvJsonAndTable) {
  Output csv = tracesmith({"query", trace_, sql_, "--format", "csv"});
  EXPECT_EQ(csv.rc, 0) << csv.err;
  EXPECT_EQ(csv.out, "rank,n\n0,10\n1,10\n");
  EXPECT_EQ(csv.err, "tracesmith: note: t.sbt lost 12 records: see the table losses\n");
  EXPECT_EQ(tracesmith({"query", trace_, sql_, "--format", "json"}).out,
            "[\n{\"rank\":0,\"n\":10},\n{\"rank\":1,\"n\":10}\n]\n");
  EXPECT_NE(tracesmith({"query", trace_, sql_}).out.find("│       0 │     10 │"), std::string::npos);
}

TEST_F(QueryTest, TakesSqlFromAFileOrStandardInput) {
  test::writeFile(dir_ / "q.sql", "-- how many\n" + sql_ + ";\n");
  for (const Output& out : {tracesmith({"query", trace_, "--file", dir_ / "q.sql", "--format", "csv"}),
                            tracesmith({"query", trace_, "--file", "-", "--format", "csv"}, sql_),
                            tracesmith({"query", trace_, "--format", "csv"}, sql_ + ";\n")})
    EXPECT_EQ(out.out, "rank,n\n0,10\n1,10\n") << out.err;
}

TEST_F(QueryTest, PutsTimesOnTheReferenceClock) {
  ASSERT_EQ(tracesmith({"synth", "--force", "-o", trace_, "--events", "50000", "--ranks", "16", "--seed", "3"}).rc, 0);
  // A collective ends everywhere within microseconds, on raw clocks that are more than a second apart.
  Output out = tracesmith({"query", trace_,
                           "SELECT max(raw) > 100000000, max(spread) < 50000, count(*) > 5 FROM (SELECT max(ts_end) - "
                           "min(ts_end) AS raw, max(reference_ts(node, ts_end)) - min(reference_ts(node, ts_end)) AS "
                           "spread FROM collectives WHERE comm = 'world' GROUP BY seq HAVING count(*) = 16)",
                           "--format", "csv"});
  EXPECT_NE(out.out.find("\ntrue,true,true\n"), std::string::npos) << out.out << out.err;
}

/// DuckDB does not look for an interrupt before this has ended, and it takes hours.
constexpr const char* kEndless = "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000))";

TEST_F(QueryTest, ATimeLimitEndsAQueryThatDoesNotListen) {
  std::filesystem::create_directory(dir_ / "tmp");
  for (const char* sql : {kEndless, "SELECT sum(a.range * b.range) FROM range(1000000000) a, range(1000000000) b"}) {
    const Output out =
        test::runWith({{"TMPDIR", dir_ / "tmp"}}, {TRACESMITH_BIN, "query", trace_, sql, "--timeout", "0.1"});
    EXPECT_EQ(out.rc, 1);
    EXPECT_NE(out.err.find("tracesmith: the query took longer than its 100.0 ms; raise --timeout to allow more\n"),
              std::string::npos)
        << out.err;
    EXPECT_TRUE(std::filesystem::is_empty(dir_ / "tmp"));
  }
}

TEST_F(QueryTest, SaysHowToGiveAQueryMoreMemory) {
  const Output out = tracesmith({"query", trace_, "SELECT list(range) FROM range(20000000)", "--memory", "10MB"});
  EXPECT_EQ(out.rc, 1);
  EXPECT_NE(out.err.find(": raise --memory, or ask for less data\n"), std::string::npos) << out.err;
}

TEST_F(QueryTest, CtrlCEndsAQueryThatDoesNotListen) {
  std::filesystem::create_directory(dir_ / "tmp");
  test::Child query({TRACESMITH_BIN, "query", trace_, kEndless, "-o", dir_ / "out.csv", "--format", "csv"},
                    {{"TMPDIR", dir_ / "tmp"}});
  // It catches signals from when it runs the statement on.
  ASSERT_TRUE(test::eventually([&] {
    const std::string status = test::readFile("/proc/" + std::to_string(query.pid()) + "/status");
    const size_t at = status.find("SigCgt:");
    return at != std::string::npos && std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGINT - 1) & 1;
  }));
  query.signal(SIGINT);
  EXPECT_EQ(query.wait().rc, 128 + SIGINT);
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "tmp"));
  EXPECT_FALSE(test::exists(dir_ / "out.csv"));
}

TEST_F(QueryTest, SaysHowManyBlocksWereRead) {
  Output out = tracesmith({"query", trace_, "SELECT sum(dur) FROM events WHERE rank = 1 AND type = 'kernel'", "-v"});
  EXPECT_NE(out.err.find("events: blocks kept 1 of 8, decoded 1"), std::string::npos) << out.err;
  out = tracesmith({"query", trace_, "EXPLAIN SELECT sum(dur) FROM events WHERE rank = 1 AND type = 'kernel'"});
  EXPECT_NE(out.out.find("1 of 8"), std::string::npos) << out.out;
}

TEST_F(QueryTest, OutputFileIsWholeOrAbsent) {
  EXPECT_EQ(tracesmith({"query", trace_, sql_, "--format", "csv", "-o", dir_ / "out.csv"}).rc, 0);
  EXPECT_EQ(test::readFile(dir_ / "out.csv"), "rank,n\n0,10\n1,10\n");
  EXPECT_EQ(tracesmith({"query", trace_, "SELECT * FROM events", "--format", "parquet", "-o", dir_ / "out.parquet"}).rc,
            0);
  EXPECT_EQ(test::readFile(dir_ / "out.parquet").substr(0, 4), "PAR1");
  Output bad =
      tracesmith({"query", trace_, "SELECT error('stop') FROM events", "--format", "csv", "-o", dir_ / "bad.csv"});
  EXPECT_EQ(bad.rc, 1);
  size_t bad_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    bad_files += entry.path().string().find("bad") != std::string::npos;
  EXPECT_EQ(bad_files, 0u);
  EXPECT_NE(tracesmith({"query", trace_, sql_, "--format", "parquet"}).err.find("-o OUT.parquet"), std::string::npos);
}

TEST_F(QueryTest, ErrorsNameWhatIsWrong) {
  struct {
    std::vector<std::string> args;
    const char* text;
  } cases[] = {
      {{"query", dir_ / "missing.sbt"}, "no such trace: "},
      {{"query", trace_, dir_ / "missing.sbt"}, "no such trace: "},
      {{"query", trace_, "SELECT nothing FROM events"}, "Binder Error"},
      {{"query", trace_, "DROP VIEW events"}, "can only be read"},
      {{"query", trace_, "SELECT 1", "--memory", "lots"}, "'lots' is not an amount of memory"},
      {{"query", TRACESMITH_BIN, "SELECT 1"}, "is not an SBT trace"},
  };
  for (const auto& c : cases) {
    Output out = tracesmith(c.args);
    EXPECT_EQ(out.rc, 1) << c.text;
    EXPECT_NE(out.err.find(c.text), std::string::npos) << out.err;
    EXPECT_EQ(out.out, "");
  }
}

TEST_F(QueryTest, AFormatThatDoesNotExistIsWrongUsage) {
  const Output named = tracesmith({"query", trace_, "SELECT 1", "--format", "xml"});
  EXPECT_EQ(named.rc, 2);
  EXPECT_NE(named.err.find("unknown format 'xml'"), std::string::npos) << named.err;
  const Output ending = tracesmith({"query", trace_, "SELECT 1", "-o", dir_ / "out.xlsx"});
  EXPECT_EQ(ending.rc, 2);
  EXPECT_NE(ending.err.find("the ending .xlsx is of no format: use .csv, .json, .parquet, .arrow or .txt"),
            std::string::npos)
      << ending.err;
  EXPECT_FALSE(test::exists(dir_ / "out.xlsx"));
  EXPECT_EQ(tracesmith({"query", trace_, "SELECT 1", "-o", dir_ / "out.txt"}).rc, 0);
}

TEST_F(QueryTest, DamageIsAWarningAndAnErrorWithStrict) {
  uint64_t offset;
  {
    auto reader = std::move(*trace::Reader::open(trace_));
    const trace::Block* block = reader->blocks(trace::tableOf<trace::StepRow>())[0];
    offset = block->offset + block->size - 8;
  }
  std::string bytes = test::readFile(trace_);
  for (int i = -8; i < 8; ++i)
    bytes[offset + static_cast<uint64_t>(i)] = static_cast<char>(bytes[offset + static_cast<uint64_t>(i)] ^ 0x5a);
  test::writeFile(trace_, bytes);
  Output out = tracesmith({"query", trace_, "SELECT sum(rank), sum(ts), sum(step) FROM steps", "--format", "csv"});
  EXPECT_EQ(out.rc, 0);
  EXPECT_NE(out.err.find("warning: 1 damaged place was left out"), std::string::npos) << out.err;
  EXPECT_EQ(tracesmith({"query", trace_, "SELECT sum(rank), sum(ts), sum(step) FROM steps", "--strict"}).rc, 1);
  EXPECT_EQ(tracesmith({"query", trace_, "SELECT sum(ts) FROM metrics", "--strict"}).rc, 0);
}

TEST_F(QueryTest, TwoTracesAreOneTable) {
  test::writeSmallTrace(dir_ / "b.sbt");
  Output out = tracesmith(
      {"query", trace_, dir_ / "b.sbt", "SELECT trace, count(*) FROM steps GROUP BY 1 ORDER BY 1", "--format", "csv"});
  EXPECT_EQ(out.out, "trace,count_star()\nb.sbt,8\nt.sbt,8\n") << out.err;
}

TEST(QueryLibrary, SaysWhatIsMissing) {
  TempDir dir;
  test::writeSmallTrace(dir / "t.sbt");
  std::filesystem::create_directories(dir / "bin");
  std::filesystem::create_directories(dir / "lib");
  std::filesystem::copy(TRACESMITH_BIN, dir / "bin/tracesmith");
  const auto lib = std::filesystem::path(TRACESMITH_BIN).parent_path().parent_path() / "lib";
  for (const auto& entry : std::filesystem::directory_iterator(lib)) {
    const std::string name = entry.path().filename();
    if (name.find("duckdb") == std::string::npos && name.find("tracesmith_query") == std::string::npos)
      std::filesystem::copy(entry.path(), dir / ("lib/" + name));
  }
  Output out = test::run({dir / "bin/tracesmith", "query", dir / "t.sbt", "SELECT 1"});
  EXPECT_EQ(out.rc, 1);
  EXPECT_NE(out.err.find("SQL needs libtracesmith_query.so"), std::string::npos) << out.err;
  EXPECT_EQ(test::run({dir / "bin/tracesmith", "--version"}).rc, 0);
  if (!TRACESMITH_HAS_QUERY) return;
  std::filesystem::copy(lib / "libtracesmith_query.so", dir / "lib/libtracesmith_query.so");
  out = test::run({dir / "bin/tracesmith", "query", dir / "t.sbt", "SELECT 1"});
  EXPECT_EQ(out.rc, 1);
  EXPECT_NE(out.err.find("SQL needs libduckdb.so"), std::string::npos) << out.err;
}

}  // namespace
}  // namespace tracesmith::cli
