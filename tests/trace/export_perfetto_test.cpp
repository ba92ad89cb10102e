// Perfetto traces, decoded: every slice has its end, times are exact, arrows have two ends, nothing overlaps.
#include <gtest/gtest.h>

#include <set>

#include "support/imported.hpp"
#include "support/perfetto_text.hpp"
#include "support/process.hpp"
#include "support/sample_trace.hpp"

namespace tracesmith::test {
namespace {

struct Perfetto : ::testing::Test {
  TempDir dir;
  SampleCounts counts{};
  PerfettoTrace trace;
  std::vector<PerfettoSlice> slices;

  void convert(const SampleOptions& options = {}, std::vector<std::string> more = {}) {
    counts = writeSampleTrace(dir / "t.sbt", options);
    exportSample(std::move(more));
  }
  void exportSample(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"export", dir / "t.sbt", "-o", dir / "t.pftrace"};
    args.insert(args.end(), more.begin(), more.end());
    Output out = tracesmith(args);
    ASSERT_EQ(out.rc, 0) << out.err;
    trace = decodePerfetto(dir / "t.pftrace");
    slices = slicesOf(trace);
  }
  std::vector<const PerfettoSlice*> named(const std::string& name, const std::string& category = "") const {
    std::vector<const PerfettoSlice*> out;
    for (const PerfettoSlice& s : slices)
      if (s.begin->name == name && (category.empty() || s.begin->category == category)) out.push_back(&s);
    return out;
  }
};

TEST_F(Perfetto, EveryRowIsASliceWithItsEndAndExactTimes) {
  convert();
  size_t markers = 3 * kSampleRanks;
  EXPECT_EQ(slices.size(),
            counts.events - markers + counts.steps + 2 * counts.collectives);  // each has a proxy operation
  auto gemm = named("void gemm<float, 128>(float const*, float*)");
  ASSERT_EQ(gemm.size(), 6u);
  EXPECT_EQ(gemm[0]->begin->ts, static_cast<uint64_t>(kSampleStart) + 20'000);
  EXPECT_EQ(gemm[0]->end, static_cast<uint64_t>(kSampleStart) + 220'000);
  std::multiset<std::string> expected, found;
  for (const Row& row : table(dir / "t.sbt", "events"))
    if (row.contains("dur")) {
      const int64_t ts = sampleReference(std::stoi(row.at("rank")), std::stoll(row.at("ts")));
      expected.insert(row.at("type") + " " + std::to_string(ts) + " " + std::to_string(ts + std::stoll(row.at("dur"))));
    }
  for (const PerfettoSlice& s : slices) {
    trace::EventType type;
    if (trace::parseEventType(s.begin->category, type))
      found.insert(s.begin->category + " " + std::to_string(s.begin->ts) + " " + std::to_string(s.end));
  }
  EXPECT_EQ(found, expected);
}

TEST_F(Perfetto, TracksAreATreeOfNodesProcessesThreadsAndStreams) {
  convert();
  std::set<std::string> paths;
  for (const auto& [id, track] : trace.tracks) paths.insert(trace.path(id));
  const std::string process = "node-b/rank 1 · python3 (pid 4001)";
  for (const char* below : {"", "/main (4001)", "/autograd \"0\" (4002)", "/GPU 1 · NVIDIA H100 80GB HBM3",
                            "/GPU 1 · NVIDIA H100 80GB HBM3/stream 7", "/GPU 1 · NVIDIA H100 80GB HBM3/stream 7 ranges",
                            "/steps", "/collectives", "/network", "/GPU memory · allocated"})
    EXPECT_TRUE(paths.contains(process + below)) << process + below;
  EXPECT_TRUE(paths.contains("node-a/GPU 0 power_watts"));
  EXPECT_TRUE(paths.contains("node-a/cpu_percent"));
  EXPECT_TRUE(paths.contains("TraceSmith losses"));
}

TEST_F(Perfetto, SlicesThatOverlapGetAnotherLane) {
  convert();
  auto first = named("void softmax<float>(float*)"), second = named("void dropout<float>(float*)");
  ASSERT_EQ(first.size(), second.size());
  EXPECT_TRUE(trace.path(first[0]->begin->track).ends_with("/stream 7"));
  EXPECT_TRUE(trace.path(second[0]->begin->track).ends_with("/stream 7 (2)"));
  // A kernel that begins where another ends stays in its lane.
  EXPECT_EQ(named("void relu<float>(float*)")[0]->begin->track,
            named("void gemm<float, 128>(float const*, float*)")[0]->begin->track);
}

TEST_F(Perfetto, LaunchesPointAtWhatTheyStarted) {
  convert();
  std::map<std::string, const PerfettoEvent*> starts, ends;
  for (const PerfettoEvent& e : trace.events) {
    for (const std::string& id : e.flows) EXPECT_TRUE(starts.emplace(id, &e).second) << "two starts of " << id;
    for (const std::string& id : e.last_flows) EXPECT_TRUE(ends.emplace(id, &e).second) << "two ends of " << id;
  }
  EXPECT_EQ(starts.size(), counts.launches + counts.flows / 2);
  EXPECT_EQ(ends.size(), starts.size());
  for (const auto& [id, start] : starts) {
    ASSERT_TRUE(ends.contains(id));
    const PerfettoEvent* end = ends.at(id);
    if (start->category == "cpu_op") {
      EXPECT_EQ(start->name, "aten::mm");
      EXPECT_EQ(end->name, "autograd::engine::evaluate_function: MmBackward0");
      continue;
    }
    EXPECT_EQ(start->args.at("correlation"), end->args.at("correlation"));
    EXPECT_NE(end->category, start->category);
  }
}

TEST_F(Perfetto, ArgumentsAreThere) {
  convert();
  const PerfettoEvent& kernel = *named("void gemm<float, 128>(float const*, float*)")[0]->begin;
  EXPECT_EQ(kernel.category, "kernel");
  EXPECT_EQ(kernel.args.at("grid"), "128 x 1 x 1");
  EXPECT_EQ(kernel.args.at("block"), "256 x 2 x 1");
  EXPECT_EQ(kernel.args.at("step"), "0");
  EXPECT_EQ(kernel.args.at("args"), R"({"queued":0,"est. achieved occupancy %":93})");
  EXPECT_EQ(named("Memcpy HtoD (Pageable -> Device)")[0]->begin->args.at("bytes"), std::to_string(4 << 20));
  const PerfettoEvent& collective = *named("all_reduce", "collective")[0]->begin;
  EXPECT_EQ(collective.args.at("comm"), "default_pg");
  EXPECT_EQ(collective.args.at("bytes"), std::to_string(4 << 20));
}

TEST_F(Perfetto, CountersMarkersAndLossesAreThere) {
  convert();
  size_t samples = 0, markers = 0;
  const PerfettoEvent* loss = nullptr;
  for (const PerfettoEvent& e : trace.events) {
    samples += e.type == "COUNTER";
    markers += e.type == "INSTANT" && e.name == "checkpoint";
    if (e.category == "loss") loss = &e;
    if (e.type == "COUNTER" && trace.tracks.at(e.track).name == "GPU 0 power_watts") {
      EXPECT_TRUE(e.value == 350.5 || e.value == 351.5);
      EXPECT_EQ(trace.tracks.at(e.track).unit, "W");
    }
  }
  EXPECT_EQ(samples, counts.metrics + counts.counters);
  EXPECT_EQ(markers, 6u);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->name, "ring full");
  EXPECT_EQ(loss->args.at("count"), "12");
}

TEST_F(Perfetto, HostileNamesStayAsTheyAreAsFarAsUtf8Goes) {
  convert();
  std::set<std::string> names;
  for (const PerfettoSlice& s : slices) names.insert(s.begin->name);
  size_t whole = 0;
  for (const std::string& name : hostileNames()) whole += names.contains(name);
  EXPECT_EQ(whole, hostileNames().size() - 1);
  EXPECT_TRUE(
      names.contains("broken \xef\xbf\xbd\xef\xbf\xbd utf-8 \xef\xbf\xbd( \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
}

TEST_F(Perfetto, BlocksOfAnySizeGiveTheSameSlices) {
  convert({.block_rows = 32768});
  size_t many = slices.size();
  convert({.block_rows = 7});
  EXPECT_EQ(slices.size(), many);
}

TEST_F(Perfetto, SelectionsKeepWhatOverlapsThem) {
  writeSampleTrace(dir / "t.sbt");
  exportSample({"--rank", "1", "--from", "1ms", "--to", "1.1ms", "--type", "kernel"});
  for (const PerfettoSlice& s : slices) {
    EXPECT_NE(trace.path(s.begin->track).find("rank 1"), std::string::npos);
    EXPECT_LT(s.begin->ts, static_cast<uint64_t>(kSampleStart) + 1'100'000);
    EXPECT_GE(s.end, static_cast<uint64_t>(kSampleStart) + 1'000'000);
  }
  EXPECT_EQ(named("void gemm<float, 128>(float const*, float*)").size(), 1u);
  for (const PerfettoEvent& e : trace.events) EXPECT_TRUE(e.flows.empty()) << "the launches were not selected";
}

TEST_F(Perfetto, DamageIsShownOnTheLossesTrack) {
  writeSampleTrace(dir / "t.sbt", {.block_rows = 16});
  ASSERT_TRUE(damageBlock(dir / "t.sbt", "events", 1));
  exportSample();
  size_t damaged = 0;
  for (const PerfettoEvent& e : trace.events) damaged += e.name == "damaged block";
  EXPECT_EQ(damaged, 1u);
}

TEST_F(Perfetto, AnEmptyTraceIsAnEmptyTrace) {
  writeSampleTrace(dir / "t.sbt", {.steps = 0, .hostile = false});
  exportSample({"--type", "kernel"});
  EXPECT_TRUE(slices.empty());
}

}  // namespace
}  // namespace tracesmith::test
