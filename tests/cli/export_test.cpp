// tracesmith export: formats by name and ending, rows as CSV and JSON, whole or absent, wrong usage.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "support/process.hpp"
#include "support/sample_trace.hpp"

namespace tracesmith::test {
namespace {

struct ExportCommand : ::testing::Test {
  TempDir dir;

  std::string sample(const SampleOptions& options = {}) {
    writeSampleTrace(dir / "t.sbt", options);
    return dir / "t.sbt";
  }
  /// Standard output of an export in this format.
  std::string text(const std::string& format, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"export", dir / "t.sbt", "-o", "-", "--format", format};
    args.insert(args.end(), more.begin(), more.end());
    Output out = tracesmith(args);
    EXPECT_EQ(out.rc, 0) << out.err;
    EXPECT_EQ(out.err, "");
    return out.out;
  }
};

/// What Python's reader makes of the CSV or JSON lines in `rows`.
std::string python(const std::string& input, const std::string& expression) {
  Output out = run({"python3", "-c",
                    "import csv,io,json,sys\n"
                    "t=sys.stdin.buffer.read().decode('utf-8')\n"
                    "rows=[json.loads(l) for l in t.split('\\n') if l] if t.startswith('{') else "
                    "list(csv.DictReader(io.StringIO(t,newline='')))\n"
                    "print(" +
                        expression + ")"},
                   input);
  EXPECT_EQ(out.rc, 0) << out.err;
  return out.out.substr(0, out.out.size() - 1);
}

TEST_F(ExportCommand, CsvHasAllColumnsAndTellsNullFromEmpty) {
  sample();
  EXPECT_EQ(text("csv", {"--table", "losses"}),
            "ts,node,rank,pid,cause,count,detail\r\n"
            "1700000000000300000,node-a,0,4000,ring full,12,12 records were dropped while the disk was slow\r\n");
  std::string events = text("csv", {"--rank", "0"});
  EXPECT_EQ(events.substr(0, events.find('\r')),
            "ts,dur,ts_end,type,name,node,rank,pid,tid,device,stream,correlation,step,bytes,grid_x,grid_y,grid_z,block_"
            "x,block_y,block_z,"
            "registers,shared_static,shared_dynamic,context,graph,graph_node,flow,external_id,args");
  EXPECT_NE(events.find(",kernel,\"\",node-a,"), std::string::npos);  // the empty name
  EXPECT_NE(events.find(",marker,checkpoint,node-a,0,4000,4000,,,"), std::string::npos);
  EXPECT_NE(events.find(R"(,"{""Input Dims"":[[8,8],[8,8]],""Sequence number"":3}")"), std::string::npos);
}

TEST_F(ExportCommand, CsvAndJsonReadBackInPython) {
  sample();
  SampleCounts counts = writeSampleTrace(dir / "t.sbt");
  for (const char* format : {"csv", "json"}) {
    std::string rows = text(format);
    EXPECT_EQ(python(rows, "len(rows)"), std::to_string(counts.events)) << format;
    EXPECT_EQ(python(rows, "sorted(len(r['name']) for r in rows)[-1]"), "2030") << format;
    EXPECT_EQ(python(rows, "sum(r['name']=='line\\nbreak\\ttab\\rreturn\\x01\\x1f\\x7f' for r in rows)"), "1")
        << format;
    EXPECT_EQ(python(rows,
                     "[str(r[k]) for r in rows if r['name'].startswith('void gemm') for k in "
                     "('ts','dur','ts_end','grid_x','block_y','shared_dynamic')][:6]"),
              "['1700000000000020000', '200000', '1700000000000220000', '128', '2', '4096']")
        << format;
  }
  EXPECT_EQ(python(text("json"), "[r['dur'] for r in rows if r['type']=='marker'][0]"), "None");
}

TEST_F(ExportCommand, EveryTableGoesOut) {
  sample();
  Output schema = tracesmith({"info", "--schema", "--json"});
  for (const char* name :
       {"events", "collectives", "proxy_ops", "steps", "metrics", "counters", "flows", "nodes", "devices", "links",
        "processes", "threads", "groups", "sessions", "clocks", "losses", "metadata"}) {
    EXPECT_NE(schema.out.find("\"" + std::string(name) + "\""), std::string::npos);
    EXPECT_FALSE(text("csv", {"--table", name}).empty());
    text("json", {"--table", name});
  }
}

TEST_F(ExportCommand, TheEndingSaysTheFormat) {
  const std::string file = sample();
  for (const char* name : {"a.pftrace", "a.perfetto-trace", "a.json", "a.csv", "a.jsonl", "a.ndjson"}) {
    Output out = tracesmith({"export", file, "-o", dir / name});
    EXPECT_EQ(out.rc, 0) << out.err;
    EXPECT_NE(out.out.find(" rows, "), std::string::npos) << out.out;
    EXPECT_GT(readFile(dir / name).size(), 1000u) << name;
  }
  EXPECT_EQ(readFile(dir / "a.pftrace"), readFile(dir / "a.perfetto-trace"));
  EXPECT_EQ(readFile(dir / "a.csv"), text("csv"));
  EXPECT_EQ(readFile(dir / "a.json"), text("chrome"));
}

TEST_F(ExportCommand, WrongUsageIsExitCode2) {
  const std::string file = sample();
  struct Case {
    std::vector<std::string> args;
    const char* message;
  };
  const Case cases[] = {
      {{"export", file, "-o", dir / "x.txt"}, "has no known ending"},
      {{"export", file, "-o", dir / "x.csv", "--table", "nothing"}, "tables are events, collectives"},
      {{"export", file, "-o", dir / "x.json", "--table", "events"}, "--table works only with"},
      {{"export", file, "-o", dir / "x.csv", "--type", "kernl"}, "no event type 'kernl'"},
      {{"export", file, "-o", dir / "x.csv", "--from", "soon"}, "'soon' is not a time"},
      {{"export", file, "-o", "-", "--format", "parquet"}, "parquet cannot be written to standard output"},
      {{"export", file, "-o", file, "--format", "csv"}, "would overwrite"},
      {{"export", file, "-o", dir / "x.csv", "--format", "xml"}, "--format"},
      {{"export", file}, "--output"}};
  for (const Case& c : cases) {
    Output out = tracesmith(c.args);
    EXPECT_EQ(out.rc, 2) << out.err;
    EXPECT_NE(out.err.find(c.message), std::string::npos) << out.err;
    EXPECT_EQ(std::count(out.err.begin(), out.err.end(), '\n'), 1);
  }
  EXPECT_FALSE(exists(dir / "x.csv"));
}

TEST_F(ExportCommand, BadFilesAreOneLineAndExitCode1) {
  writeFile(dir / "no.sbt", "this is no trace, whatever its name says. It is long enough to hold a header, though.");
  for (const std::string& file : {dir / "no.sbt", dir / "missing.sbt", dir.path()}) {
    Output out = tracesmith({"export", file, "-o", dir / "x.csv"});
    EXPECT_EQ(out.rc, 1);
    EXPECT_EQ(std::count(out.err.begin(), out.err.end(), '\n'), 1) << out.err;
    EXPECT_FALSE(exists(dir / "x.csv"));
  }
  Output out = tracesmith({"export", sample(), "-o", dir / "no/such/folder.csv"});
  EXPECT_EQ(out.rc, 1);
}

TEST_F(ExportCommand, DamageIsAWarningOrWithStrictTheEnd) {
  const std::string file = sample({.block_rows = 16});
  ASSERT_TRUE(damageBlock(file, "events"));
  for (const char* name : {"a.csv", "a.json", "a.pftrace", "a.jsonl"}) {
    Output out = tracesmith({"export", file, "-o", dir / name});
    EXPECT_EQ(out.rc, 0);
    EXPECT_NE(out.err.find("warning: 1 damaged place was left out"), std::string::npos) << out.err;
    EXPECT_TRUE(exists(dir / name));
    out = tracesmith({"export", file, "-o", dir / (std::string("strict-") + name), "--strict"});
    EXPECT_EQ(out.rc, 1);
    EXPECT_FALSE(exists(dir / (std::string("strict-") + name)));
  }
  EXPECT_EQ(python(readFile(dir / "a.jsonl"), "len(rows)"),
            std::to_string(writeSampleTrace(dir / "whole.sbt").events - 16));
}

TEST_F(ExportCommand, TracesThatAreNotClosedAndEmptyOnesGoOut) {
  SampleCounts counts = writeSampleTrace(dir / "t.sbt", {.close = false});
  EXPECT_EQ(python(text("json"), "len(rows)"), std::to_string(counts.events));
  writeSampleTrace(dir / "t.sbt", {.steps = 0, .hostile = false});
  EXPECT_EQ(text("json"), "");
  EXPECT_EQ(python(text("csv"), "len(rows)"), "0");
}

TEST_F(ExportCommand, ParquetIsWrittenByTheSqlLibrary) {
  const std::string file = sample({.block_rows = 16});
  Output out = tracesmith({"export", file, "-o", dir / "a.parquet", "--table", "steps"});
  if (out.rc == 1 && out.err.find("SQL needs") != std::string::npos) GTEST_SKIP() << "built without SQL";
  ASSERT_EQ(out.rc, 0) << out.err;
  EXPECT_TRUE(readFile(dir / "a.parquet").starts_with("PAR1"));
  ASSERT_TRUE(damageBlock(file, "steps"));
  out = tracesmith({"export", file, "-o", dir / "b.parquet", "--table", "steps"});
  EXPECT_EQ(out.rc, 0);
  EXPECT_NE(out.err.find("warning: "), std::string::npos);
  EXPECT_EQ(tracesmith({"export", file, "-o", dir / "c.parquet", "--table", "steps", "--strict"}).rc, 1);
  EXPECT_FALSE(exists(dir / "c.parquet"));
}

TEST_F(ExportCommand, AStrictParquetExportThatFailsLeavesNothing) {
#if !TRACESMITH_HAS_QUERY
  GTEST_SKIP() << "built without SQL";
#endif
  const std::string file = sample({.block_rows = 16}), out = dir / "o/c.parquet";
  std::filesystem::create_directory(dir / "o");
  auto strict = [&](const std::string& to) {
    return tracesmith({"export", file, "-o", to, "--table", "steps", "--strict", "--force"});
  };
  auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir / "o")) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  // Of two runs that look killed, one lives: what it writes is not touched.
  const std::string living = "c.parquet.part" + std::to_string(::getpid());
  writeFile(dir / "o/c.parquet.part999999999", "half");
  writeFile(dir / ("o/" + living), "half");
  ASSERT_EQ(strict(out).rc, 0);
  EXPECT_EQ(files(), (std::vector<std::string>{"c.parquet", living}));
  const std::string before = readFile(out);
  // Where it cannot get its name.
  std::filesystem::create_directory(dir / "o/d.parquet");
  EXPECT_EQ(strict(dir / "o/d.parquet").rc, 1);
  // Damage, found while it is written.
  ASSERT_TRUE(damageBlock(file, "steps"));
  EXPECT_EQ(strict(out).rc, 1);
  EXPECT_EQ(files(), (std::vector<std::string>{"c.parquet", living, "d.parquet"}));
  EXPECT_EQ(readFile(out), before);
}

TEST_F(ExportCommand, SelectionsApplyToRows) {
  sample();
  EXPECT_EQ(
      python(text("json", {"--rank", "1", "--type", "memcpy,memset"}), "sorted({(r['rank'],r['type']) for r in rows})"),
      "[(1, 'memcpy'), (1, 'memset')]");
  EXPECT_EQ(python(text("json", {"--device", "0", "--table", "metrics"}), "{r['device'] for r in rows}"), "{0}");
  EXPECT_EQ(python(text("json", {"--from", "1ms", "--to", "1.02ms", "--table", "steps"}),
                   "[(r['rank'],r['step']) for r in rows]"),
            "[(0, 1), (1, 1)]");
}

TEST(Export, ChromeJsonReadBackHasTheSameDateRanksAndMark) {
  TempDir dir;
  ASSERT_EQ(tracesmith({"synth", "-o", dir / "a.sbt", "--events", "5000", "--ranks", "4", "--gpus-per-node", "2"}).rc,
            0);
  ASSERT_EQ(tracesmith({"export", dir / "a.sbt", "-o", dir / "a.json"}).rc, 0);
  ASSERT_EQ(tracesmith({"import", dir / "a.json", "-o", dir / "b.sbt"}).rc, 0);
  auto lines = [](const std::string& file) {
    std::map<std::string, std::string> found;
    std::istringstream in(tracesmith({"info", file}).out);
    for (std::string line; std::getline(in, line);)
      for (const char* key : {"span", "recorded", "simulated", "job  "})
        if (line.starts_with(key)) found[key] = line.substr(0, line.find(" by "));
    return found;
  };
  const auto before = lines(dir / "a.sbt");
  EXPECT_EQ(before.size(), 4u);
  EXPECT_EQ(lines(dir / "b.sbt"), before);
}

}  // namespace
}  // namespace tracesmith::test
