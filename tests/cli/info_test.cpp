// tracesmith info: what it says of a whole trace, an unfinished one, a damaged one; the same as JSON.
#include <gtest/gtest.h>

#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {
namespace {

struct Info : ::testing::Test {
  TempDir dir;

  Output info(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"info", dir / "t.sbt"};
    args.insert(args.end(), more.begin(), more.end());
    return tracesmith(args);
  }
  /// An expression of the JSON object `d`.
  std::string json(const std::string& expression, std::vector<std::string> more = {}) {
    more.push_back("--json");
    Output out = info(more);
    EXPECT_EQ(out.rc, 0) << out.err;
    Output value =
        run({"python3", "-c", "import json,sys\nd=json.load(sys.stdin)\nprint(" + expression + ")"}, out.out);
    EXPECT_EQ(value.rc, 0) << value.err;
    return value.out.substr(0, value.out.size() - 1);
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Info, SaysWhatATraceHolds) {
  SampleCounts counts = writeSampleTrace(dir / "t.sbt");
  Output out = info();
  EXPECT_EQ(out.rc, 0);
  EXPECT_EQ(out.err, "");
  for (const char* part :
       {", closed\n", "span        3.115 ms, 1700000000000000000 to ", "recorded    2023-11-14 22:13:20 UTC by test\n",
        "2 ranks (0,1), 2 nodes, 2 GPUs NVIDIA H100 80GB HBM3, steps 0-2", "all_reduce  default_pg", "memcpy 6",
        "ring full", "12 records were dropped while the disk was slow", "exchange"})
    EXPECT_TRUE(has(out.out, part)) << part << "\n" << out.out;
  EXPECT_TRUE(has(out.out, "kernel " + std::to_string(counts.kernels)));
  EXPECT_LT(std::count(out.out.begin(), out.out.end(), '\n'), 45) << "more than a screen";
  for (size_t from = 0, to; (to = out.out.find('\n', from)) != std::string::npos; from = to + 1) {
    std::string line = out.out.substr(from, to - from);
    EXPECT_TRUE(line.size() <= 100 || line.starts_with("file ")) << line;
  }
}

TEST_F(Info, HasTheTimeOfTheJobAsAnalyzeHasIt) {
  ASSERT_EQ(tracesmith({"synth", "-o", dir / "t.sbt", "--ranks", "4", "--events", "40000", "--fault", "none"}).rc, 0);
  const Output analyzed = tracesmith({"analyze", "--json", dir / "t.sbt"});
  ASSERT_EQ(analyzed.rc, 0) << analyzed.err;
  const Output same = run({"python3", "-c",
                           "import json,sys\nd=json.load(sys.stdin)\n"
                           "print([len(d['steps'])]+[d[k] for k in ('steps_by','job_us','startup_us','step_us')])"},
                          analyzed.out);
  EXPECT_EQ(json("[d['job'][k] for k in ('steps','steps_by','job_us','startup_us','step_us')]") + "\n", same.out);
  EXPECT_TRUE(has(info().out, "job time    ")) << info().out;
}

TEST_F(Info, JsonHasTheSame) {
  SampleCounts counts = writeSampleTrace(dir / "t.sbt");
  EXPECT_EQ(json("[d['closed'],d['ranks'],d['nodes'],d['first_step'],d['last_step']]"),
            "[True, [0, 1], ['node-a', 'node-b'], 0, 2]");
  EXPECT_EQ(json("[d['start_ns'],d['created_ns'],d['trace_id']]"),
            "[1700000000000000000, 1700000000000000000, '01020300000000000000000000000000']");
  EXPECT_EQ(json("d['events_by_type']['kernel']"), std::to_string(counts.kernels));
  EXPECT_EQ(json("d['host_rows']+d['device_rows']"), std::to_string(counts.events));
  EXPECT_EQ(json("d['collectives']"), "[{'op': 'all_reduce', 'comm': 'default_pg', 'count': 6, 'bytes': 25165824}]");
  EXPECT_EQ(json("[(l['cause'],l['count']) for l in d['losses']]"), "[('ring full', 12)]");
  EXPECT_EQ(json("[(c['node'],c['offset_ns'],c['drift_ppm'],c['bound_ns']) for c in d['clocks']]"),
            "[('node-a', 0, 0, 250), ('node-b', -1000, 0.5, 250)]");
  EXPECT_EQ(json("sum(t['bytes'] for t in d['tables'])+d['other_bytes']==d['bytes']"), "True");
  EXPECT_EQ(json("[c['name'] for t in d['tables'] if t['name']=='losses' for c in t['columns']]"),
            "['ts', 'node', 'rank', 'pid', 'cause', 'count', 'detail']");
}

TEST_F(Info, ColumnsHaveSizes) {
  writeSampleTrace(dir / "t.sbt");
  Output out = info({"--columns"});
  EXPECT_TRUE(has(out.out, "\n    correlation ")) << out.out;
}

TEST_F(Info, AnEmptyTraceIsNothingSpecial) {
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(dir / "t.sbt");
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->close());
  Output out = info();
  EXPECT_EQ(out.rc, 0);
  EXPECT_TRUE(has(out.out, "losses      none recorded")) << out.out;
  EXPECT_EQ(json("[d['start_ns'],d['ranks'],d['tables']]"), "[None, [], []]");
}

TEST_F(Info, ATraceThatIsNotClosedSaysSo) {
  writeSampleTrace(dir / "t.sbt", {.close = false});
  writeFile(dir / "t.sbt", readFile(dir / "t.sbt") + "half a block");
  Output out = info();
  EXPECT_EQ(out.rc, 0);
  EXPECT_TRUE(has(out.out, "not closed: still being written, or its writer was killed")) << out.out;
  EXPECT_EQ(json("[d['closed'],d['unfinished_bytes']]"), "[False, 12]");
}

TEST_F(Info, DamageIsListedByVerifyAndFailsWithStrict) {
  writeSampleTrace(dir / "t.sbt", {.block_rows = 16});
  Output good = info({"--verify", "--strict"});
  EXPECT_EQ(good.rc, 0) << good.err;
  EXPECT_TRUE(has(good.out, "none: every block was decoded")) << good.out;
  ASSERT_TRUE(damageBlock(dir / "t.sbt", "metrics"));
  Output out = info({"--verify"});
  EXPECT_EQ(out.rc, 0);
  EXPECT_TRUE(has(out.out, "checksum of a column does not match")) << out.out;
  EXPECT_TRUE(has(out.err, "warning: 1 damaged place")) << out.err;
  EXPECT_EQ(json("len(d['damage'])", {"--verify"}), "1");
  EXPECT_EQ(info({"--verify", "--strict"}).rc, 1);
}

TEST_F(Info, SchemaNeedsNoFile) {
  Output out = tracesmith({"info", "--schema"});
  EXPECT_EQ(out.rc, 0);
  EXPECT_TRUE(has(out.out, "losses: what is missing from this trace, and why\n")) << out.out;
  EXPECT_TRUE(has(out.out, "  shared_dynamic  INTEGER  ")) << out.out;
  EXPECT_EQ(tracesmith({"info"}).rc, 2);
}

TEST_F(Info, HostileTextsDoNotReachTheTerminal) {
  Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(dir / "t.sbt");
  ASSERT_TRUE(writer);
  auto appender = (*writer)->appender();
  trace::LossRow loss;
  loss.cause = (*writer)->string("evil \x1b[2J cause");
  loss.detail = appender->text("line\nbreak\xff");
  ASSERT_TRUE(appender->append(loss));
  ASSERT_TRUE(appender->flush());
  ASSERT_TRUE((*writer)->close());
  Output out = info();
  EXPECT_FALSE(has(out.out, "\x1b"));
  EXPECT_FALSE(has(out.out, "line\nbreak"));
  EXPECT_EQ(json("d['losses'][0]['cause']=='evil \\x1b[2J cause'"), "True");
}

}  // namespace
}  // namespace tracesmith::test
