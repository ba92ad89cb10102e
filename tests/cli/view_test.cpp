// tracesmith view: rows in order of time, shortened to the terminal; the timeline.
#include <gtest/gtest.h>

#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::test {
namespace {

struct View : ::testing::Test {
  TempDir dir;

  Output view(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"view", dir / "t.sbt"};
    args.insert(args.end(), more.begin(), more.end());
    return tracesmith(args);
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Longest line, in characters.
size_t widest(const std::string& text) {
  size_t most = 0, width = 0;
  for (char c : text) {
    if (c == '\n') width = 0;
    if (c != '\n' && (c & 0xc0) != 0x80) most = std::max(most, ++width);
  }
  return most;
}

TEST_F(View, ShowsTheFirstRowsInOrderOfTime) {
  for (uint32_t block_rows : {32768u, 5u}) {
    SampleCounts counts = writeSampleTrace(dir / "t.sbt", {.block_rows = block_rows});
    Output out = view({"-n", "5", "--width", "80"});
    EXPECT_EQ(out.rc, 0) << out.err;
    EXPECT_EQ(out.out,
              "start µs  duration  type        rank  where  name\n"
              "   0.000  900.0 µs  annotation     0  t4000  ProfilerStep#0\n"
              "   0.000  900.0 µs  annotation     1  t4001  ProfilerStep#0\n"
              "   1.000  890.0 µs  python         0  t4000  train.py(12): step\n"
              "   1.000  890.0 µs  python         1  t4001  train.py(12): step\n"
              "   5.000  40.00 µs  cpu_op         0  t4000  aten::mm\n"
              "(5 of " +
                  std::to_string(counts.events) + " rows; -n shows more)\n");
  }
}

TEST_F(View, SelectsRows) {
  writeSampleTrace(dir / "t.sbt");
  EXPECT_EQ(view({"--type", "memcpy,memset", "--rank", "1", "--from", "1ms", "--width", "100"}).out,
            " start µs  duration  type    rank  where        bytes  name\n"
            "1,600.001  50.00 µs  memcpy     1  GPU 1 s7  4.194 MB  Memcpy HtoD (Pageable -> Device)\n"
            "1,655.001      0 ns  memset     1  GPU 1 s7     256 B  Memset (Device)\n"
            "2,600.001  50.00 µs  memcpy     1  GPU 1 s7  4.194 MB  Memcpy HtoD (Pageable -> Device)\n"
            "2,655.001      0 ns  memset     1  GPU 1 s7     256 B  Memset (Device)\n");
}

TEST_F(View, NodesWithDifferentClocksAreOnOne) {
  ASSERT_EQ(tracesmith({"synth", "-o", dir / "t.sbt", "--events", "50000", "--ranks", "16", "--seed", "3"}).rc, 0);
  const std::string timeline = view({"--timeline", "-n", "60", "--json"}).out;
  auto number = [&](const char* key) {
    const size_t at = timeline.find(key);
    return at == std::string::npos ? 0 : std::stoll(timeline.substr(at + std::string(key).size()));
  };
  const int64_t span = number("\"to_ns\":") - number("\"from_ns\":");
  EXPECT_GT(span, 10'000'000);
  EXPECT_LT(span, 300'000'000) << "the raw clocks of its two nodes are more than a second apart";
  EXPECT_TRUE(has(tracesmith({"info", dir / "t.sbt"}).out, "1.229 s  -10.202 ppm"));
}

TEST_F(View, FitsItsWidthWhateverTheNames) {
  writeSampleTrace(dir / "t.sbt");
  for (const char* width : {"40", "80", "120", "200"}) {
    Output out = view({"-n", "1000", "--width", width});
    EXPECT_LE(widest(out.out), std::stoul(width));
    for (char c : out.out) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    EXPECT_EQ(out.out.find('\x7f'), std::string::npos);
  }
  EXPECT_TRUE(has(view({"--type", "kernel", "--from", "3ms", "--width", "80"}).out, "x…x"));
  EXPECT_LE(widest(view({"-n", "100"}).out), 80u) << "80 columns where there is no terminal";
}

TEST_F(View, SaysWhichTimesThereAreWhereAWindowHasNone) {
  writeSampleTrace(dir / "t.sbt");
  const Output out = view({"--from", "100s", "--to", "200s"});
  EXPECT_EQ(out.rc, 2);
  EXPECT_TRUE(has(out.err, "there is nothing in that window: this trace has times from ")) << out.err;
}

TEST_F(View, ShowsAnyTable) {
  writeSampleTrace(dir / "t.sbt");
  EXPECT_EQ(view({"--table", "steps", "--rank", "0", "--width", "80"}).out,
            " start µs       dur  node    rank   pid  step  name\n"
            "    0.000  900.0 µs  node-a     0  4000     0  ProfilerStep#0\n"
            "1,000.000  900.0 µs  node-a     0  4000     1  ProfilerStep#1\n"
            "2,000.000  900.0 µs  node-a     0  4000     2  ProfilerStep#2\n");
  EXPECT_TRUE(has(view({"--table", "nodes"}).out, "node-b"));
  EXPECT_EQ(view({"--table", "links"}).out, "no rows\n");
  Output out = view({"--table", "node"});
  EXPECT_EQ(out.rc, 2);
  EXPECT_TRUE(has(out.err, "tables are events, ")) << out.err;
}

TEST_F(View, JsonHasAllColumns) {
  writeSampleTrace(dir / "t.sbt");
  Output out = run(
      {"python3", "-c",
       "import json,sys\nr=json.load(sys.stdin)\nprint(len(r), r[0]['ts'], r[0]['grid_x'], r[0]['device'], len(r[0]))"},
      view({"--json", "-n", "3", "--type", "kernel"}).out);
  EXPECT_EQ(out.out, "3 1700000000000020000 128 0 29\n") << out.err;
}

TEST_F(View, KernelsOfEveryLibraryAreCommunication) {
  auto writer = std::move(*trace::Writer::create(dir / "t.sbt"));
  auto out = writer->appender();
  trace::EventRow e;
  e.ts = 0;
  e.dur = 1'000'000;
  e.type = static_cast<int64_t>(trace::EventType::kernel);
  e.rank = e.device = 0;
  e.stream = 7;
  e.name = writer->string("void deep_ep::intranode::dispatch<8>(int*)");
  ASSERT_TRUE(out->append(e));
  ASSERT_TRUE(out->flush());
  out.reset();
  ASSERT_TRUE(writer->close());
  EXPECT_TRUE(has(view({"--timeline", "--width", "71"}).out, "NNNNNNNNNN"));
}

TEST_F(View, TimelineShowsWhatFilledTheTime) {
  writeSampleTrace(dir / "t.sbt", {.hostile = false});
  Output out = view({"--timeline", "--from", "0ns", "--to", "1ms", "--width", "71", "--rank", "0"});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_EQ(out.out.substr(out.out.find(" from")),
            " from 0 ns to 1.000 ms; one character is 20.00 µs\n\n"
            "                0         200 µs    400 µs    600 µs    800 µs\n"
            "rank GPU stream |         |         |         |         |\n"
            "   0   0      7 .###############..............MMM..#######+.......  50%\n"
            "   0   0     20 .......NNNNNNNNNNNNNNNNNNNNN......................  40%\n\n"
            "# kernels (+ about half, : less)  N communication  M copies  . idle\n");
  EXPECT_TRUE(has(view({"--timeline", "--threads"}).out, "t4001"));
}

TEST_F(View, TimelineOfManyRanksIsCut) {
  writeSampleTrace(dir / "t.sbt");
  Output out = view({"--timeline", "-n", "1"});
  EXPECT_TRUE(has(out.out, "… and 1 more line of these ranks (-n shows more)")) << out.out;
  EXPECT_TRUE(has(out.out, "… and 1 more rank: select some with --rank 1, or show more lines with -n")) << out.out;
  EXPECT_LE(widest(out.out), 80u);
}

TEST_F(View, TimelineAsJson) {
  writeSampleTrace(dir / "t.sbt");
  Output out = run(
      {"python3", "-c",
       "import json,sys\nd=json.load(sys.stdin)\nprint([(l['rank'],l['device'],l['stream'],l['tid'],len(l['buckets'])) "
       "for l in d['lines']])"},
      view({"--timeline", "--json", "--width", "71"}).out);
  EXPECT_EQ(out.out, "[(0, 0, 7, None, 50), (0, 0, 20, None, 50), (1, 1, 7, None, 50), (1, 1, 20, None, 50)]\n")
      << out.err;
}

TEST_F(View, EmptyAndUnfinishedTraces) {
  writeSampleTrace(dir / "t.sbt", {.steps = 0, .hostile = false});
  EXPECT_EQ(view().out, "no rows\n");
  EXPECT_EQ(view({"--timeline"}).out, "no events\n");
  EXPECT_EQ(view({"--json"}).out, "[\n]\n");
  writeSampleTrace(dir / "t.sbt", {.close = false});
  EXPECT_TRUE(has(view().out, "ProfilerStep#0"));
}

TEST_F(View, DamageIsAWarningAndFailsWithStrict) {
  writeSampleTrace(dir / "t.sbt", {.block_rows = 16});
  ASSERT_TRUE(damageBlock(dir / "t.sbt", "events"));
  Output out = view({"-n", "500"});
  EXPECT_EQ(out.rc, 0);
  EXPECT_TRUE(has(out.err, "warning: 1 damaged place was left out")) << out.err;
  EXPECT_EQ(view({"-n", "500", "--strict"}).rc, 1);
  EXPECT_EQ(view({"--timeline", "--threads", "--strict"}).rc, 1);
}

TEST_F(View, WrongUsageIsExitCode2) {
  writeSampleTrace(dir / "t.sbt");
  for (std::vector<std::string> args : {std::vector<std::string>{"--timeline", "--table", "steps"},
                                        {"--threads"},
                                        {"--type", "x"},
                                        {"-n", "0"},
                                        {"--width", "5"}})
    EXPECT_EQ(view(args).rc, 2) << args[0];
  EXPECT_EQ(tracesmith({"view", dir / "missing.sbt"}).rc, 1);
}

}  // namespace
}  // namespace tracesmith::test
