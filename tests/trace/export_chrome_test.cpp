// Chrome traces: valid JSON whatever the names, exact times, and the same rows when they are imported again.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "support/imported.hpp"
#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {
namespace {

/// Fails on what is no strict JSON, prints what the expression makes of the trace `d`.
std::string python(const std::string& path, const std::string& expression) {
  Output out = run({"python3", "-c",
                    "import json,sys\n"
                    "def no(c): raise ValueError(c)\n"
                    "d=json.loads(open(sys.argv[1],encoding='utf-8').read(),parse_constant=no)\n"
                    "ev=d['traceEvents']\n"
                    "print(" +
                        expression + ")",
                    path});
  EXPECT_EQ(out.rc, 0) << out.err;
  return out.out.substr(0, out.out.size() - 1);
}

/// Rows as sorted text, without the columns given.
std::multiset<std::string> rowsOf(const std::string& path, const std::string& name,
                                  const std::set<std::string>& without = {}) {
  std::multiset<std::string> out;
  for (const Row& row : table(path, name)) {
    std::string text;
    for (const auto& [column, value] : row)
      if (!without.contains(column)) text += column + "=" + value + "; ";
    out.insert(text);
  }
  return out;
}

void exportTo(const std::string& in, const std::string& out, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"export", in, "-o", out};
  args.insert(args.end(), more.begin(), more.end());
  Output result = tracesmith(args);
  ASSERT_EQ(result.rc, 0) << result.err;
}

TEST(ExportChrome, IsStrictJsonWithExactTimes) {
  TempDir dir;
  SampleCounts counts = writeSampleTrace(dir / "t.sbt");
  exportTo(dir / "t.sbt", dir / "t.json");
  const std::string path = dir / "t.json";
  EXPECT_EQ(python(path, "sum(e['ph'] in 'Xi' for e in ev)"), std::to_string(counts.events));
  EXPECT_EQ(python(path, "sum(e['ph']=='C' for e in ev)"), std::to_string(counts.metrics + counts.counters));
  EXPECT_EQ(python(path, "sum(e['ph'] in 'sf' for e in ev)"), std::to_string(2 * counts.launches + counts.flows));
  EXPECT_EQ(python(path, "len({(e['cat'],e['id']) for e in ev if e['ph']=='s'})==sum(e['ph']=='s' for e in ev)"),
            "True");
  EXPECT_EQ(python(path, "[d['deviceProperties'][0][k] for k in ('id','name','numSms','maxThreadsPerBlock')]"),
            "[0, 'NVIDIA H100 80GB HBM3', 132, 1024]");
  // µs with three decimals, so that no reader has to round.
  std::string text = readFile(path);
  EXPECT_NE(text.find("\"dur\":200.000"), std::string::npos);
  EXPECT_EQ(python(path, "min(round(e['ts']*1000) for e in ev if e['ph']=='X')+d['baseTimeNanoseconds']"),
            std::to_string(kSampleStart));
}

TEST(ExportChrome, TellsProcessesOfSeveralRanksApart) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt");
  exportTo(dir / "t.sbt", dir / "t.json");
  EXPECT_EQ(python(dir / "t.json", "sorted(e['args']['name'] for e in ev if e['name']=='process_name')"),
            "['rank 0 · GPU 0 · NVIDIA H100 80GB HBM3', 'rank 0 · python3 (pid 4000)', "
            "'rank 1 · GPU 1 · NVIDIA H100 80GB HBM3', 'rank 1 · python3 (pid 4001)']");
  EXPECT_EQ(python(dir / "t.json", "len({e['pid'] for e in ev if e['ph']=='X'})"), "4");
}

TEST(ExportChrome, OneRankLooksLikeKineto) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt");
  exportTo(dir / "t.sbt", dir / "t.json", {"--rank", "1"});
  const std::string path = dir / "t.json";
  EXPECT_EQ(python(path, "[d['distributedInfo'][k] for k in ('rank','world_size','pg_count')]"), "[1, 2, 1]");
  EXPECT_EQ(python(path, "d['distributedInfo']['pg_config'][0]['ranks']"), "[0, 1]");
  EXPECT_EQ(python(path, "sorted({e['pid'] for e in ev if e['ph']=='X'})"), "[1, 4001]");
  EXPECT_EQ(python(path, "sorted({e['cat'] for e in ev if e['ph']=='X'})"),
            "['cpu_op', 'cuda_driver', 'cuda_runtime', 'cuda_sync', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', "
            "'kernel', "
            "'python_function', 'user_annotation']");
  EXPECT_EQ(python(path,
                   "[e['args'][k] for e in ev if e['name'].startswith('void gemm') for k in ('grid','block','registers "
                   "per thread')][:3]"),
            "[[128, 1, 1], [256, 2, 1], 40]");
}

TEST(ExportChrome, ALaunchShapeThatIsKnownInPartHasNoNumbersThatWereNotMeasured) {
  TempDir dir;
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(dir / "t.sbt");
  ASSERT_TRUE(writer);
  trace::EventRow row;
  row.ts = 1000;
  row.dur = 10;
  row.type = static_cast<int64_t>(trace::EventType::kernel);
  row.name = (*writer)->string("gemm");
  row.device = row.stream = row.rank = 0;
  row.launch = (*writer)->launch({.grid_x = 4, .block_x = 256, .registers = 32});
  auto appender = (*writer)->appender();
  ASSERT_TRUE(appender->append(row));
  ASSERT_TRUE(appender->flush());
  appender.reset();
  ASSERT_TRUE((*writer)->close());
  exportTo(dir / "t.sbt", dir / "t.json");
  exportTo(dir / "t.sbt", dir / "t.pftrace");
  EXPECT_EQ(python(dir / "t.json",
                   "[sorted(e['args'].keys() & {'grid','block','registers per thread','shared memory'}) "
                   "for e in ev if e['name']=='gemm']"),
            "[['registers per thread']]");
  EXPECT_EQ(readFile(dir / "t.pftrace").find("-1"), std::string::npos);
}

TEST(ExportChrome, HostileNamesComeBack) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt");
  exportTo(dir / "t.sbt", dir / "t.json", {"--rank", "0"});
  ASSERT_EQ(tracesmith({"import", "--force", dir / "t.json", "-o", dir / "again.sbt"}).rc, 0);
  std::multiset<std::string> names;
  for (const Row& row : table(dir / "again.sbt", "events")) names.insert(at(row, "name"));
  size_t whole = 0;
  for (const std::string& name : hostileNames()) whole += names.count(name);
  EXPECT_EQ(whole, hostileNames().size() - 1);  // all but the one that is no UTF-8
}

TEST(ExportChrome, ImportsToTheSameRows) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt", {.hostile = false});
  for (const char* rank : {"0", "1"}) {
    exportTo(dir / "t.sbt", dir / "a.json", {"--rank", rank});
    ASSERT_EQ(tracesmith({"import", "--force", dir / "a.json", "-o", dir / "a.sbt"}).rc, 0);
    exportTo(dir / "a.sbt", dir / "b.json");
    ASSERT_EQ(tracesmith({"import", "--force", dir / "b.json", "-o", dir / "b.sbt"}).rc, 0);
    for (const char* name : {"events", "collectives", "steps", "counters", "flows", "devices", "threads", "groups"})
      EXPECT_EQ(rowsOf(dir / "a.sbt", name), rowsOf(dir / "b.sbt", name)) << name;
  }
  // Rank 1 as it was written, too, on the reference clock: but for what Chrome's format does not say.
  std::multiset<std::string> expected;
  for (Row& row : table(dir / "t.sbt", "events")) {
    const int64_t ts = std::stoll(row.at("ts")), move = sampleReference(1, ts) - ts;
    row["ts"] = std::to_string(ts + move);
    if (row.contains("ts_end")) row["ts_end"] = std::to_string(std::stoll(row.at("ts_end")) + move);
    std::string text;
    for (const auto& [column, value] : row)
      if (column != "node" && column != "args" && column != "step") text += column + "=" + value + "; ";
    if (at(row, "rank") == "1") expected.insert(text);
  }
  EXPECT_EQ(rowsOf(dir / "a.sbt", "events", {"node", "args", "step"}), expected);
}

TEST(ExportChrome, SeveralRanksComeBackAsTheyWere) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt", {.hostile = false});
  exportTo(dir / "t.sbt", dir / "t.json");
  ASSERT_EQ(tracesmith({"import", dir / "t.json", "-o", dir / "all.sbt"}).rc, 0);
  std::multiset<std::string> events, collectives, steps;
  for (const char* rank : {"0", "1"}) {
    exportTo(dir / "t.sbt", dir / "one.json", {"--rank", rank, "--force"});
    ASSERT_EQ(tracesmith({"import", "--force", dir / "one.json", "-o", dir / "one.sbt"}).rc, 0);
    events.merge(rowsOf(dir / "one.sbt", "events", {"node"}));
    collectives.merge(rowsOf(dir / "one.sbt", "collectives", {"node"}));
    steps.merge(rowsOf(dir / "one.sbt", "steps", {"node"}));
  }
  EXPECT_EQ(rowsOf(dir / "all.sbt", "events", {"node"}), events);
  EXPECT_EQ(rowsOf(dir / "all.sbt", "collectives", {"node"}), collectives);
  EXPECT_EQ(rowsOf(dir / "all.sbt", "steps", {"node"}), steps);
  const std::set<std::string> not_in_json = {"world_size", "local_rank", "command",  "ts_start", "ts_end",       "args",
                                             "role",       "job",        "job_step", "pod",      "pod_namespace"};
  EXPECT_EQ(rowsOf(dir / "all.sbt", "processes", not_in_json), rowsOf(dir / "t.sbt", "processes", not_in_json));
  for (const Row& row : table(dir / "all.sbt", "events"))
    EXPECT_EQ(at(row, "node"), at(row, "rank") == "0" ? "node-a" : "node-b");
}

TEST(ExportChrome, RealTracesComeBack) {
  const std::string shared = sharedDir();
  if (shared.empty()) GTEST_SKIP() << "no shared traces beside this checkout";
  TempDir dir;
  for (const char* name :
       {"traces/h100-bert-small.json.gz", "traces/mi250-toy.json.gz",
        "traces/critical-path/event-sync-multi-stream.json.gz", "traces/two-of-128-ranks/sampled_rank-0.json.gz"}) {
    ASSERT_EQ(tracesmith({"import", "--force", shared + "/" + name, "-o", dir / "a.sbt"}).rc, 0) << name;
    exportTo(dir / "a.sbt", dir / "a.json");
    ASSERT_EQ(tracesmith({"import", "--force", dir / "a.json", "-o", dir / "b.sbt"}).rc, 0) << name;
    for (const char* t : {"events", "collectives", "steps", "counters", "devices", "threads", "groups"})
      EXPECT_TRUE(rowsOf(dir / "a.sbt", t) == rowsOf(dir / "b.sbt", t)) << name << " " << t;
  }
}

TEST(ExportChrome, AnEmptyTraceIsValid) {
  TempDir dir;
  writeSampleTrace(dir / "t.sbt", {.steps = 0, .hostile = false});
  exportTo(dir / "t.sbt", dir / "t.json");
  EXPECT_EQ(python(dir / "t.json", "ev"), "[]");
}

}  // namespace
}  // namespace tracesmith::test
