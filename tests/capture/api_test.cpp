// tracesmith.h and NVTX: what a program says about itself is in the trace; without the probe it costs nothing and does
// nothing.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <set>

#include "capture/ring/reader.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"

namespace tracesmith {
namespace {

using test::Output;
using test::Row;
using test::rows;
using test::TempDir;

const std::string kPrograms = TRACESMITH_BUILD_DIR "/bin/tests/";
const std::string kProbe = TRACESMITH_BUILD_DIR "/lib/libtracesmith_probe.so";

class Annotations : public ::testing::Test {
 protected:
  Output run(const std::vector<std::string>& command, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back("--");
    argv.insert(argv.end(), command.begin(), command.end());
    return test::runWith({{"TRACESMITH_DIR", dir_ / "rings"}, {"RANK", "2"}}, argv);
  }
  std::string trace() const { return dir_ / "t.sbt"; }
  std::vector<Row> named(const std::string& name) const { return rows(trace(), "events", "name", name); }

  TempDir dir_;
};

class Api : public Annotations, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string program() const { return kPrograms + GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(In, Api, ::testing::Values("api_program_c", "api_program_cpp"));

TEST_P(Api, DoesNothingWithoutTheProbe) {
  for (const char* what : {"train", "threads", "unbalanced", "fork"}) {
    const Output o = test::runWith({}, {program(), what});
    EXPECT_EQ(o.rc, 0);
    EXPECT_EQ(o.out, "probe 0\n");
    EXPECT_EQ(o.err, "");
  }
  // A probe that is gone, or that nobody gave a folder.
  EXPECT_EQ(test::runWith({{"TRACESMITH_PROBE", "/nowhere/probe.so"}}, {program(), "train"}).out, "probe 0\n");
  EXPECT_EQ(test::runWith({{"TRACESMITH_PROBE", kProbe}}, {program(), "train"}).out, "probe 0\n");
}

TEST_P(Api, RangesStepsCountersAndMetadataAreRows) {
  const Output o = run({program(), "train"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "probe 1\n");
  const std::vector<Row> steps = rows(trace(), "steps"), loads = named("load"), decodes = named("decode"),
                         counters = rows(trace(), "counters");
  ASSERT_EQ(steps.size(), 5u);
  ASSERT_EQ(loads.size(), 5u);
  ASSERT_EQ(decodes.size(), 5u);
  ASSERT_EQ(counters.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(steps[i].i("step"), static_cast<int64_t>(i));
    EXPECT_EQ(steps[i].i("rank"), 2);
    EXPECT_EQ(loads[i].s("type"), "annotation");
    EXPECT_EQ(loads[i].i("tid"), loads[i].i("pid")) << "the main thread";
    EXPECT_LE(steps[i].i("ts"), loads[i].i("ts"));
    EXPECT_LE(loads[i].i("ts"), decodes[i].i("ts"));
    EXPECT_LE(decodes[i].i("ts_end"), loads[i].i("ts_end"));
    EXPECT_LE(loads[i].i("ts_end"), steps[i].i("ts_end"));
    EXPECT_EQ(counters[i].s("name"), "loss");
    EXPECT_EQ(counters[i].i("step"), static_cast<int64_t>(i));
    EXPECT_EQ(counters[i].d("value"), 2.5 - static_cast<double>(i));
  }
  std::vector<Row> metadata = rows(trace(), "metadata");
  std::erase_if(metadata, [](const Row& r) { return r.s("key").starts_with("telemetry."); });
  ASSERT_EQ(metadata.size(), 2u);
  EXPECT_EQ(metadata[0].s("key"), "model");
  EXPECT_EQ(metadata[0].s("value"), "a \"small\" one");
  EXPECT_EQ(metadata[1].s("value"), "8");
}

TEST_P(Api, ThreadsKeepTheirRanges) {
  EXPECT_EQ(run({program(), "threads"}).rc, 0);
  std::set<int64_t> tids;
  for (int i = 0; i < 6; ++i) {
    const std::vector<Row> mine = named("worker " + std::to_string(i));
    EXPECT_EQ(mine.size(), 100u);
    std::set<int64_t> of_one;
    for (const Row& r : mine) of_one.insert(r.i("tid"));
    EXPECT_EQ(of_one.size(), 1u);
    tids.merge(of_one);
  }
  EXPECT_EQ(tids.size(), 6u);
  EXPECT_EQ(named("inner").size(), 600u);
}

TEST_F(Annotations, ThreadsThatComeAndGoAreAllSeen) {
  EXPECT_EQ(run({kPrograms + "api_program_c", "many"}).rc, 0);
  std::set<int64_t> tids;
  for (const Row& r : named("short-lived")) tids.insert(r.i("tid"));
  EXPECT_EQ(named("short-lived").size(), 1500u);
  EXPECT_GT(tids.size(), 1000u);
  EXPECT_TRUE(test::losses(trace()).empty());
}

TEST_F(Annotations, DeepNestingKeepsTheOuterRanges) {
  EXPECT_EQ(run({kPrograms + "api_program_c", "deep"}).rc, 0);
  EXPECT_EQ(named("level 0").size(), 1u);
  EXPECT_EQ(named("level 63").size(), 1u);
  EXPECT_EQ(named("level 64").size(), 0u);
  EXPECT_EQ(named("after").size(), 1u) << "depth is still known";
}

TEST_F(Annotations, WhatIsNotBalancedDoesNoHarm) {
  EXPECT_EQ(run({kPrograms + "api_program_c", "unbalanced"}).rc, 0);
  EXPECT_EQ(named("never ended").size(), 0u);
  EXPECT_EQ(named("ended").size(), 1u);
  const std::vector<Row> steps = rows(trace(), "steps");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].i("step"), 1);
  EXPECT_EQ(steps[1].i("step"), 2);
  EXPECT_LE(steps[0].i("ts_end"), steps[1].i("ts"));
}

TEST_F(Annotations, AForkedChildStaysOut) {
  EXPECT_EQ(run({kPrograms + "api_program_c", "fork"}).rc, 0);
  EXPECT_EQ(named("parent").size(), 1u);
  EXPECT_EQ(named("child").size(), 0u);
  EXPECT_EQ(rows(trace(), "counters").size(), 0u);
  EXPECT_EQ(rows(trace(), "processes").size(), 1u);
}

TEST_F(Annotations, TheProbeIsFoundWithoutPreloading) {
  // As when only CUDA or NCCL loads it.
  ASSERT_EQ(::mkdir((dir_ / "rings").c_str(), 0700), 0);
  const Output o = test::runWith({{"TRACESMITH_PROBE", kProbe}, {"TRACESMITH_DIR", dir_ / "rings"}},
                                 {kPrograms + "api_program_c", "train"});
  EXPECT_EQ(o.out, "probe 1\n");
  const std::vector<std::string> rings = ring::findRings(dir_ / "rings");
  ASSERT_EQ(rings.size(), 1u);
  auto reader = ring::RingReader::open(rings[0]);
  ASSERT_TRUE(reader) << reader.status().message();
  size_t steps = 0;
  (*reader)->snapshot([&](uint32_t, const ring::Record& r) { steps += r.kind == ring::Kind::step && r.end > 0; });
  EXPECT_EQ(steps, 5u);
}

TEST_F(Annotations, AFolderOthersMayEnterIsNotUsed) {
  ASSERT_EQ(::mkdir((dir_ / "open").c_str(), 0755), 0);
  const Output o = test::runWith({{"TRACESMITH_PROBE", kProbe}, {"TRACESMITH_DIR", dir_ / "open"}},
                                 {kPrograms + "api_program_c", "train"});
  EXPECT_EQ(o.out, "probe 0\n");
  EXPECT_TRUE(ring::findRings(dir_ / "open").empty());
}

TEST_F(Annotations, NvtxRangesAndMarksAreRows) {
  const Output o = run({kPrograms + "nvtx_program"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "nvtx 1 1\npop of nothing -1\n");
  for (const char* once : {"forward", "across threads", "in alpha", "registered", "of the second library"})
    EXPECT_EQ(named(once).size(), 1u) << once;
  ASSERT_EQ(named("layer").size(), 2u) << "pushed, and started";
  EXPECT_LE(named("forward")[0].i("ts"), named("layer")[0].i("ts"));
  EXPECT_GE(named("forward")[0].i("ts_end"), named("layer")[0].i("ts_end"));
  const std::vector<Row> mark = named("inside");
  ASSERT_EQ(mark.size(), 1u);
  EXPECT_EQ(mark[0].s("type"), "marker");
  EXPECT_TRUE(mark[0].null("dur"));
  EXPECT_EQ(named("in alpha")[0].s("args"), "{\"domain\":\"alpha\"}");
  EXPECT_EQ(named("registered")[0].s("args"), "{\"domain\":\"alpha\"}");
  const std::vector<Row> beta = named("in beta");
  ASSERT_EQ(beta.size(), 3u) << "pushed, marked, started";
  for (const Row& r : beta) EXPECT_EQ(r.s("args"), "{\"domain\":\"beta\"}");
  EXPECT_LE(named("in alpha")[0].i("ts_end"), beta[0].i("ts_end")) << "alpha was popped first";
  EXPECT_EQ(named("(wide text)").size(), 1u);
  for (const Row& r : rows(trace(), "events")) EXPECT_GT(r.i("ts"), 0);
  EXPECT_EQ(rows(trace(), "events").size(), 5u + 2 + 1 + 3 + 2 + 4) << "and a mark without a name";
}

TEST_F(Annotations, NvtxRangesNamedLikeStepsAreSteps) {
  const Output o = run({kPrograms + "nvtx_program"}, {"--per-step"});
  EXPECT_EQ(o.rc, 0) << o.err;
  const std::vector<Row> steps = rows(trace(), "steps");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].i("step"), 7);
  EXPECT_EQ(steps[1].i("step"), 8);
  EXPECT_EQ(named("iteration_7").size(), 1u);
  EXPECT_EQ(named("Step 8").size(), 1u);
  ASSERT_EQ(named("in a step").size(), 1u);
  EXPECT_EQ(named("in a step")[0].i("step"), 7);
  EXPECT_GE(steps[0].i("ts_end"), named("in a step")[0].i("ts_end"));
  EXPECT_TRUE(named("step by step")[0].null("step"));
  EXPECT_NE(o.err.find("step  ranks"), std::string::npos) << o.err;
}

TEST_F(Annotations, LightModeLeavesNvtxOutButNotTheApi) {
  EXPECT_EQ(run({kPrograms + "nvtx_program"}, {"--mode", "light"}).rc, 0);
  EXPECT_EQ(rows(trace(), "events").size(), 0u);
  EXPECT_EQ(run({kPrograms + "api_program_c", "train"}, {"--mode", "light"}).rc, 0);
  EXPECT_EQ(rows(trace(), "steps").size(), 5u);
  EXPECT_EQ(named("load").size(), 5u);
}

TEST_F(Annotations, NvtxWithoutTheProbeIsLeftAlone) {
  EXPECT_EQ(test::runWith({}, {kPrograms + "nvtx_program"}).out, "nvtx 0 0\n");
  // Pointed at the probe by somebody, but nobody records.
  const Output o = test::runWith({{"NVTX_INJECTION64_PATH", kProbe}}, {kPrograms + "nvtx_program"});
  EXPECT_EQ(o.rc, 0);
  EXPECT_EQ(o.out, "nvtx 1 1\npop of nothing -1\n");
}

}  // namespace
}  // namespace tracesmith
