// analyze, report and diff as a user runs them.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <sstream>

#include "support/process.hpp"
#include "support/sample_trace.hpp"
#include "support/small_job.hpp"

namespace tracesmith {
namespace {

using test::exists;
using test::Output;
using test::readFile;
using test::TempDir;
using test::tracesmith;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class AnalyzeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    test::SmallJob job;
    job.slow[5] = 1.2;
    test::writeSmallJob(dir_ / "slow.sbt", job);
    test::writeSmallJob(dir_ / "well.sbt", {});
  }
  TempDir dir_;
};

TEST_F(AnalyzeCommand, TheVerdictComesFirst) {
  const Output o = tracesmith({"analyze", dir_ / "slow.sbt", "--ranks", "--steps", "--comm"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("rank 5 on node1 cost the job ")) << o.out;
  for (const char* part : {"Who the others waited for", "Where the time goes", "Critical path",
                           "were as fast as the others", "Steps", "Who sends to whom", "communication pattern: ring"})
    EXPECT_TRUE(has(o.out, part)) << part << "\n" << o.out;
}

TEST_F(AnalyzeCommand, FitsTheWidthOfTheTerminal) {
  const Output wide = tracesmith({"analyze", dir_ / "slow.sbt", "--ranks"});
  const Output narrow = test::run({"env", "COLUMNS=60", TRACESMITH_BIN, "analyze", dir_ / "slow.sbt", "--ranks"});
  EXPECT_EQ(narrow.rc, 0) << narrow.err;
  std::istringstream lines(narrow.out);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }), 60) << line;
  // All columns are there: a table that is too wide goes on below.
  for (const char* column : {"others waited", "slowdown", "cause", "hidden comm", "idle"})
    EXPECT_TRUE(has(narrow.out, column)) << column << "\n" << narrow.out;
  EXPECT_EQ(test::run({"env", "-u", "COLUMNS", TRACESMITH_BIN, "analyze", dir_ / "slow.sbt", "--ranks"}).out, wide.out);
}

TEST_F(AnalyzeCommand, JsonHasWhatOthersBuildOn) {
  const Output o = tracesmith({"analyze", dir_ / "slow.sbt", "--json"});
  ASSERT_EQ(o.rc, 0) << o.err;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  ASSERT_EQ(parser.parse(o.out).get(root), simdjson::SUCCESS) << o.out.substr(0, 200);
  for (const char* key : {"hta", "steps", "breakdown", "collectives", "blame", "links", "critical_path", "clock",
                          "losses", "verdict", "unknowns", "matrix"})
    EXPECT_EQ(root[key].error(), simdjson::SUCCESS) << key;
  for (const char* key : {"temporal", "overlap", "kernel_types", "kernels", "idle", "queue", "launch", "stragglers"})
    EXPECT_EQ(root["hta"][key].error(), simdjson::SUCCESS) << key;
  auto first = root["collectives"].at(0);
  for (const char* key : {"index", "group", "op", "bytes", "culprit_rank", "wait_us_total", "skew_start_us",
                          "skew_end_us", "transfer_us", "algbw_gbps", "busbw_gbps"})
    EXPECT_EQ(first[key].error(), simdjson::SUCCESS) << key;
  auto step = root["breakdown"].at(0);
  for (const char* key : {"rank", "step", "forward_us", "backward_us", "optimizer_us", "data_us", "exposed_comm_us",
                          "hidden_comm_us", "idle_us"})
    EXPECT_EQ(step[key].error(), simdjson::SUCCESS) << key;
  EXPECT_TRUE(step["forward_us"].is_null()) << "not measured is NULL";
  EXPECT_EQ(int64_t(root["verdict"]["rank"]), 5);
  auto blame = root["blame"].at(0);
  for (const char* key : {"rank", "node", "cost_us", "collectives", "cause", "evidence", "confidence"})
    EXPECT_EQ(blame[key].error(), simdjson::SUCCESS) << key;
}

TEST_F(AnalyzeCommand, SaysWhatIsWrongInOneLine) {
  Output o = tracesmith({"analyze", dir_ / "nothing.sbt"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  EXPECT_TRUE(o.out.empty());
  EXPECT_EQ(tracesmith({"analyze"}).rc, 2);
  EXPECT_EQ(tracesmith({"analyze", dir_ / "slow.sbt", "--nonsense"}).rc, 2);
  test::writeFile(dir_ / "rules", "only-a-pattern\n");
  o = tracesmith({"analyze", dir_ / "slow.sbt", "--comm-rules", dir_ / "rules"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "line 1")) << o.err;
  o = tracesmith({"analyze", "--show-comm-rules"});
  EXPECT_EQ(o.rc, 0);
  EXPECT_TRUE(has(o.out, "deepep"));
}

TEST_F(AnalyzeCommand, HostileNamesAndDamageDoNoHarm) {
  test::writeSampleTrace(dir_ / "sample.sbt", {.block_rows = 64});
  ASSERT_TRUE(test::damageBlock(dir_ / "sample.sbt", "events", 1));
  Output o = tracesmith({"analyze", dir_ / "sample.sbt", "--json"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.err, "damaged")) << o.err;
  simdjson::dom::parser parser;
  EXPECT_EQ(parser.parse(o.out).error(), simdjson::SUCCESS);
  o = tracesmith({"analyze", dir_ / "sample.sbt", "--strict"});
  EXPECT_EQ(o.rc, 1);
  o = tracesmith({"report", dir_ / "sample.sbt", "-o", dir_ / "sample.html"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_FALSE(has(readFile(dir_ / "sample.html"), "<script"));
}

TEST_F(AnalyzeCommand, AnEmptyTraceIsSaidToBeEmpty) {
  test::SmallJob job;
  for (int r = 0; r < job.ranks; ++r) job.left_out.insert(r);
  test::writeSmallJob(dir_ / "empty.sbt", job);
  const Output o = tracesmith({"analyze", dir_ / "empty.sbt"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("no events")) << o.out;
  EXPECT_EQ(tracesmith({"report", dir_ / "empty.sbt", "-o", dir_ / "empty.html"}).rc, 0);
}

TEST_F(AnalyzeCommand, WhatToDoAndWhatElseIsSlowAreSaid) {
  test::SmallJob job;
  job.slow[5] = 1.2;
  job.slow[2] = 1.4;
  test::writeSmallJob(dir_ / "two.sbt", job);
  const Output o = tracesmith({"analyze", dir_ / "two.sbt"});
  EXPECT_TRUE(o.out.starts_with("rank 2 on node0 ")) << o.out;
  EXPECT_TRUE(has(o.out, "\n  what to do: check whether ")) << o.out;
  EXPECT_TRUE(has(o.out, "\n  also: rank 5 on node1 ")) << o.out;
  ASSERT_EQ(tracesmith({"report", dir_ / "two.sbt", "-o", dir_ / "two.html"}).rc, 0);
  const std::string page = readFile(dir_ / "two.html");
  EXPECT_TRUE(has(page, "<p>What to do: check whether ")) << page.substr(0, 4000);
  EXPECT_TRUE(has(page, "<p>Also: rank 5 on node1 "));
}

TEST_F(AnalyzeCommand, TheReportNeedsNothingElse) {
  Output o = tracesmith({"report", dir_ / "slow.sbt", "-o", dir_ / "r.html"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::string page = readFile(dir_ / "r.html");
  for (const char* part :
       {"rank 5 on node1 cost the job", "timeline of the worst collective", "ranks by steps", "communication matrix",
        "where the time goes", "prefers-color-scheme:dark", "</html>", "slow.sbt · ", "row sends to column"})
    EXPECT_TRUE(has(page, part)) << part;
  for (const char* part : {"http:", "https:", "<script", "src=", "@import", "nan\"", "inf\""})
    EXPECT_FALSE(has(page, part)) << part;
  o = tracesmith({"report", dir_ / "slow.sbt", "-o", dir_ / "no/such/folder/r.html"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(tracesmith({"report", dir_ / "slow.sbt"}).rc, 2);
}

TEST_F(AnalyzeCommand, DiffNamesTheRankThatChanged) {
  Output o = tracesmith({"diff", dir_ / "well.sbt", dir_ / "slow.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("a step takes ")) << o.out;
  EXPECT_TRUE(has(o.out, "longer (+")) << o.out;
  EXPECT_TRUE(has(o.out, ": rank 5 computes ")) << o.out;
  EXPECT_FALSE(has(o.out, "differs:")) << o.out;
  o = tracesmith({"diff", dir_ / "well.sbt", dir_ / "well.sbt"});
  EXPECT_TRUE(o.out.starts_with("a step takes as long as before")) << o.out;
  o = tracesmith({"diff", dir_ / "well.sbt", dir_ / "slow.sbt", "--json"});
  simdjson::dom::parser parser;
  EXPECT_EQ(parser.parse(o.out).error(), simdjson::SUCCESS);
  EXPECT_EQ(tracesmith({"diff", dir_ / "well.sbt"}).rc, 2);
  EXPECT_EQ(tracesmith({"diff", dir_ / "well.sbt", dir_ / "nothing.sbt"}).rc, 1);
}

TEST(DiffCommand, SaysInWhatTheJobsDifferAndRefusesWhatCannotBeCompared) {
  TempDir dir;
  auto import = [&](const std::string& name, const char* category, const char* gpu, int world) {
    test::writeFile(dir / (name + ".json"),
                    R"({"deviceProperties":[{"id":0,"name":")" + std::string(gpu) + R"("}],"cuda_runtime_version":)" +
                        std::to_string(12000 + world) + R"(,"distributedInfo":{"rank":0,"world_size":)" +
                        std::to_string(world) + R"(},"traceEvents":[{"ph":"X","cat":")" + category +
                        R"(","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}},
                              {"ph":"X","cat":"cpu_op","name":"op","pid":10,"tid":11,"ts":1,"dur":2}]})");
    ASSERT_EQ(tracesmith({"import", dir / (name + ".json"), "-o", dir / (name + ".sbt")}).rc, 0);
  };
  import("a", "kernel", "NVIDIA A100", 2);
  import("b", "kernel", "NVIDIA H100", 4);
  import("host", "cpu_op", "NVIDIA H100", 4);
  Output o = tracesmith({"diff", dir / "a.sbt", dir / "b.sbt"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("the recording takes as long as before")) << o.out;
  for (const char* line :
       {"differs: ranks: 2 before, 4 after;", "differs: GPUs: 1 × NVIDIA A100 before, 1 × NVIDIA H100 after",
        "differs: cuda_runtime_version: 12002 before, 12004 after"})
    EXPECT_TRUE(has(o.out, line)) << line << "\n" << o.out;
  o = tracesmith({"diff", dir / "b.sbt", dir / "host.sbt"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "cannot be compared: nothing ran on a device in the second one")) << o.err;
}

TEST(DiffCommand, HasHtasSetsOnItsOwnTraces) {
  if (test::sharedDir().empty()) GTEST_SKIP() << "the real traces are not here";
  TempDir dir;
  for (const char* name : {"base", "test"})
    ASSERT_EQ(tracesmith({"import", test::sharedDir() + "/traces/compare/" + name + ".json.gz", "-o",
                          dir / (std::string(name) + ".sbt")})
                  .rc,
              0);
  const Output o = tracesmith({"diff", dir / "base.sbt", dir / "test.sbt", "--step", "1010", "--json"});
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  ASSERT_EQ(parser.parse(o.out).get(root), simdjson::SUCCESS);
  auto size = [&](const char* side, const char* set) { return simdjson::dom::array(root["ops"][side][set]).size(); };
  EXPECT_EQ(size("cpu", "unchanged"), 5u);
  EXPECT_EQ(size("cpu", "added"), 3u);
  EXPECT_EQ(size("cpu", "deleted"), 1u);
  EXPECT_EQ(size("gpu", "deleted"), 1u);
  EXPECT_EQ(size("gpu", "added"), 0u);
}

}  // namespace
}  // namespace tracesmith
