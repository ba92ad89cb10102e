// The probe with CUPTI, under `tracesmith run`, in a program that uses a stand-in for libcupti: every record is in the
// trace, what is missing is counted, and the program does not notice.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "capture/probe/watch.hpp"
#include "capture/ring/reader.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith {
namespace {

using test::Child;
using test::Environment;
using test::eventually;
using test::losses;
using test::Output;
using test::Row;
using test::rows;
using test::TempDir;

const std::string kBuild = TRACESMITH_BUILD_DIR;

using Commands = std::vector<std::string>;

class ProbeTest : public ::testing::Test {
 protected:
  /// The command line of a fake CUDA program under `tracesmith run`.
  Commands underRun(const Commands& commands, const Commands& flags = {}) const {
    Commands argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {"--", kBuild + "/bin/tests/fake_cuda"});
    argv.insert(argv.end(), commands.begin(), commands.end());
    return argv;
  }
  Environment environment(const Environment& more = {}) const {
    Environment all = {{"TRACESMITH_DIR", dir_ / "rings"},
                       {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"},
                       {"FAKE_CUDA_LOG", dir_ / "log"},
                       {"FAKE_OTHER_PROFILER", kBuild + "/lib/tests/libfake_other_profiler.so"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output run(const Commands& commands, const Commands& flags = {}, const Environment& more = {}) const {
    return test::runWith(environment(more), underRun(commands, flags));
  }

  std::string trace() const { return dir_ / "t.sbt"; }
  std::vector<Row> kernels() const { return rows(trace(), "events", "type", "kernel"); }

  /// What the program made, one line each, without what was lost.
  std::vector<std::string> made() const {
    std::vector<std::string> lines;
    std::istringstream in(test::readFile(dir_ / "log"));
    for (std::string line; std::getline(in, line);)
      if (!line.starts_with("lost")) lines.push_back(line);
    return lines;
  }
  size_t madeLost() const {
    std::istringstream in(test::readFile(dir_ / "log"));
    size_t n = 0;
    for (std::string line; std::getline(in, line);) n += line.starts_with("lost");
    return n;
  }
  /// The same lines, from the trace.
  std::vector<std::string> recorded(bool with_times = true) const {
    std::vector<std::string> lines;
    for (const Row& r : rows(trace(), "events"))
      if (r.s("type") != "marker") lines.push_back(line(r, with_times));
    return lines;
  }
  static std::string line(const Row& r, bool with_times) {
    auto number = [&](const char* column) { return r.null(column) ? "0" : std::to_string(r.i(column)); };
    std::string times = std::to_string(r.i("ts")) + "|" + std::to_string(r.i("ts") + r.i("dur"));
    if (!with_times) times = std::to_string(r.i("dur"));
    // The program gives every call a stream; the trace says it only of what ran on one.
    const bool host = r.null("stream");
    return r.s("type") + "|" + r.s("name") + "|" + times + "|" + number("correlation") + "|" +
           (host ? "7" : number("stream")) + "|" + number("device") + "|" + number("bytes") + "|" + number("graph") +
           "|" + number("graph_node") + "|" + number("tid");
  }
  void expectAllRecorded() const {
    std::vector<std::string> expected = made(), got = recorded();
    for (std::string& l : expected)  // overhead belongs to no stream
      if (l.starts_with("overhead")) l.replace(l.find("|0|0|0|0|0|0|"), 13, "|0|7|0|0|0|0|");
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, expected);
  }

  /// The ring of the one process of the job.
  std::unique_ptr<ring::RingReader> ringOfJob() const {
    std::unique_ptr<ring::RingReader> found;
    eventually([&] {
      std::error_code ignored;
      for (const auto& folder : std::filesystem::directory_iterator(dir_ / "rings", ignored))
        for (const std::string& path : ring::findRings(folder.path()))
          if (auto reader = ring::RingReader::open(path)) found = std::move(*reader);
      return found != nullptr;
    });
    return found;
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  TempDir dir_;
};

TEST_F(ProbeTest, EveryRecordIsInTheTrace) {
  const Output o = run({"kernels 100", "copies 20", "sets 10", "peers 5", "graphs 4", "syncs 10", "calls 5", "exit 0"});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_EQ(made().size(), 100u * 3 + 20 * 2 + 10 + 5 + 4 * 2 + 6)
      << "the calls launch nothing, 6 of 10 make the host wait";
  EXPECT_TRUE(losses(trace()).empty());
  EXPECT_TRUE(has(o.err, "100 kernels")) << o.err;
  EXPECT_TRUE(has(o.err, "none lost")) << o.err;
  for (const Row& k : kernels()) {
    EXPECT_EQ(k.s("launch"), std::to_string(1 + k.i("correlation") % 5) + ",1,1,32,1,1,32,1024,2048");
    EXPECT_EQ(k.i("context"), 1);
  }
  for (const Row& c : rows(trace(), "events", "name", "Memcpy PtoP (Device -> Device)"))
    EXPECT_EQ(c.s("args"), "{\"src_device\":1,\"dst_device\":2}");
  const std::vector<Row> processes = rows(trace(), "processes");
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].s("name"), "fake_cuda");
  EXPECT_TRUE(has(processes[0].s("command"), "kernels 100 copies 20"));
  EXPECT_EQ(rows(trace(), "clocks").size(), 1u);
}

TEST_F(ProbeTest, EveryThreadsBuffersAreRead) {
  for (const char* version : {"130001", "24"}) {  // a buffer for each thread, one for all
    std::filesystem::remove(dir_ / "log");
    const Output o = run({"threads 8 300"}, {}, {{"FAKE_CUPTI_VERSION", version}, {"FAKE_CUPTI_BUFFER", "40"}});
    EXPECT_EQ(o.rc, 0) << o.err;
    EXPECT_EQ(kernels().size(), 8u * 300);
    expectAllRecorded();
    EXPECT_TRUE(losses(trace()).empty());
  }
}

class CuptiVersion : public ProbeTest, public ::testing::WithParamInterface<int> {};

// What cuptiGetVersion says from CUDA 11.6 to 13: kernel records of 176 to 216 bytes.
INSTANTIATE_TEST_SUITE_P(Since11_6, CuptiVersion, ::testing::Values(17, 18, 19, 22, 23, 26, 28, 130001));

TEST_P(CuptiVersion, RecordsAreReadAsLongAsTheyAre) {
  const Output o = run({"kernels 10", "graphs 2", "copies 3", "sets 2", "peers 2", "syncs 5"}, {"--graph-nodes"},
                       {{"FAKE_CUPTI_VERSION", std::to_string(GetParam())}});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_EQ(rows(trace(), "events", "name", "node").size(), 6u);
  EXPECT_TRUE(losses(trace()).empty());
}

class OldCupti : public ProbeTest, public ::testing::WithParamInterface<int> {};

// CUDA 10 to 11.5: kernel records of 144 to 168 bytes, the system's clock, no choice of calls.
INSTANTIATE_TEST_SUITE_P(Until11_5, OldCupti, ::testing::Values(12, 13, 14, 15, 16));

TEST_P(OldCupti, RecordsAreReadInOurClock) {
  const Output o = run({"kernels 10", "graphs 2", "copies 3", "sets 2", "peers 2", "syncs 5"}, {"--graph-nodes"},
                       {{"FAKE_CUPTI_VERSION", std::to_string(GetParam())},
                        {"TRACESMITH_CUPTI", kBuild + "/lib/tests/old/libcupti.so.11.2"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  std::vector<std::string> expected, got = recorded(false);
  for (const std::string& l : made()) {
    std::vector<std::string> field;
    std::istringstream in(l);
    for (std::string f; std::getline(in, f, '|');) field.push_back(f);
    ASSERT_EQ(field.size(), 11u);
    if (GetParam() < 14) field[8] = "0";  // graph
    if (GetParam() < 13) field[9] = "0";  // its node
    std::string line = field[0] + "|" + field[1] + "|" + std::to_string(std::stoll(field[3]) - std::stoll(field[2]));
    for (size_t i = 4; i < field.size(); ++i) line += "|" + field[i];
    expected.push_back(line);
  }
  std::sort(expected.begin(), expected.end());
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(losses(trace()).empty());
  const int64_t start = rows(trace(), "processes").at(0).i("ts_start");
  for (const Row& k : kernels()) {
    EXPECT_GE(k.i("ts"), start - 1'000'000'000);
    EXPECT_LE(k.i("ts"), start + 60'000'000'000);
  }
}

TEST_F(ProbeTest, LossesAreCountedByCause) {
  const Output o = run({"kernels 5", "bad", "unknown 3", "drop 6", "hold", "kernels 2"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels().size(), 7u);
  expectAllRecorded();
  // Of the kernel that did not end CUPTI gives a record without an end when it must give all.
  EXPECT_EQ(losses(trace()),
            (std::map<std::string, int64_t>{{"bad timestamp", 5}, {"unknown record", 3}, {"dropped by CUPTI", 6}}));
  EXPECT_TRUE(has(o.err, "14 lost")) << o.err;
}

TEST_F(ProbeTest, WithoutABufferLeftTheLossIsCountedAndTheProgramGoesOn) {
  const Output o =
      run({"threads 6 50", "print done"}, {}, {{"TRACESMITH_CUPTI_MB", "2"}, {"TRACESMITH_CUPTI_BUFFER_KB", "900"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "done\n");
  EXPECT_GT(madeLost(), 0u);
  expectAllRecorded();
  EXPECT_EQ(losses(trace())["dropped by CUPTI"], static_cast<int64_t>(madeLost()));
}

TEST_F(ProbeTest, AnOldCuptiWithoutABufferLeftIsNotGivenNull) {
  const Output o = run({"hold", "threads 6 500", "print done"}, {},
                       {{"TRACESMITH_CUPTI_MB", "1"},
                        {"TRACESMITH_CUPTI_BUFFER_KB", "900"},
                        {"FAKE_CUPTI_VERSION", "26"},
                        {"FAKE_CUPTI_BUFFER", "100"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "done\n");
  EXPECT_EQ(madeLost(), 0u) << "CUPTI got no buffer";
  EXPECT_LE(recorded().size(), made().size());
}

TEST_F(ProbeTest, ModesSayWhatIsRecorded) {
  const Commands commands = {"kernels 4", "copies 2", "syncs 5", "calls 5", "overheads 2", "graphs 1"};
  auto count = [&](const char* type) { return rows(trace(), "events", "type", type).size(); };
  EXPECT_EQ(run(commands, {"--mode", "light"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("memcpy"), 2u);
  EXPECT_EQ(count("graph"), 1u);
  for (const char* none : {"runtime", "driver", "sync", "overhead"}) EXPECT_EQ(count(none), 0u) << none;
  EXPECT_EQ(run(commands, {"--mode", "default"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("runtime"), 4u + 2 + 1) << "those that launch";
  EXPECT_EQ(count("driver"), 4u);
  EXPECT_EQ(count("sync"), 3u) << "in which the host waits: for an event, a stream, the device";
  for (const Row& s : rows(trace(), "events", "type", "sync")) {
    EXPECT_TRUE(s.null("stream")) << "the call does not tell";
    EXPECT_FALSE(s.null("tid"));
  }
  EXPECT_EQ(count("overhead"), 0u);
  EXPECT_EQ(run(commands, {"--mode", "full"}).rc, 0);
  EXPECT_EQ(count("kernel"), 4u);
  EXPECT_EQ(count("runtime"), 4u + 2 + 1 + 5 + 4);
  EXPECT_EQ(count("driver"), 4u + 5);
  EXPECT_EQ(count("sync"), 5u);
  EXPECT_EQ(count("overhead"), 2u);
}

TEST_F(ProbeTest, OnlyFullModePaysForRecordsOfSynchronisation) {
  EXPECT_EQ(run({"kinds"}, {"--mode", "light"}).out, "1 2 10 22 51\n");
  EXPECT_EQ(run({"kinds"}).out, "1 2 10 22 51\n") << "calls are chosen one by one";
  EXPECT_EQ(run({"kinds"}, {}, {{"FAKE_CUPTI_VERSION", "22"}}).out, "1 2 5 10 22 51\n") << "they cannot be";
  EXPECT_EQ(run({"kinds"}, {"--mode", "full"}).out, "1 2 4 5 10 17 22 38 51\n");
}

TEST_F(ProbeTest, AnOldCuptiThatCannotChooseCallsGivesAllRuntimeCalls) {
  EXPECT_EQ(run({"kernels 4", "calls 5"}, {}, {{"FAKE_CUPTI_VERSION", "22"}}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "runtime").size(), 4u + 5);
  EXPECT_EQ(kernels().size(), 4u);
}

TEST_F(ProbeTest, GraphsAreOneRowEachUnlessNodesAreAskedFor) {
  EXPECT_EQ(run({"graphs 3"}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "graph").size(), 3u);
  EXPECT_EQ(kernels().size(), 0u);
  EXPECT_EQ(run({"graphs 3"}, {"--graph-nodes"}).rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "graph").size(), 0u);
  ASSERT_EQ(kernels().size(), 9u);
  for (const Row& k : kernels()) EXPECT_EQ(k.i("graph_node") >> 32, k.i("graph"));
}

TEST_F(ProbeTest, WithoutCuptiTheProgramRunsAndALineSaysSo) {
  const Output o = run({"print fine", "kernels 3", "exit 5"}, {}, {{"TRACESMITH_CUPTI", dir_ / "none.so"}});
  EXPECT_EQ(o.rc, 5);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "libcupti was not found")) << o.err;
  EXPECT_TRUE(has(o.err, "no GPU records")) << o.err;
  EXPECT_EQ(rows(trace(), "processes").size(), 1u);
  EXPECT_EQ(rows(trace(), "events").size(), 0u);
}

TEST_F(ProbeTest, RefusedByCuptiTheProgramRunsAndALineSaysSo) {
  const Output o = run({"print fine", "kernels 3", "exit 5"}, {}, {{"FAKE_CUPTI_REFUSE", "1"}});
  EXPECT_EQ(o.rc, 5);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "CUPTI refused")) << o.err;
  EXPECT_EQ(rows(trace(), "events").size(), 0u);
}

TEST_F(ProbeTest, AProgramWithoutCudaRunsAndALineSaysSo) {
  const Output o = run({"later", "print fine", "exit 6"});
  EXPECT_EQ(o.rc, 6);
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "the trace has no events")) << o.err;
}

TEST_F(ProbeTest, RecordingPausesAndGoesOnAtRunTime) {
  Child job(underRun({"kernels 5 1", "touch " + (dir_ / "a"), "off", "kernels 7 2", "touch " + (dir_ / "b"), "on",
                      "kernels 3 3"}),
            environment());
  ASSERT_TRUE(eventually([&] { return test::exists(dir_ / "a"); })) << job.err();
  auto ring = ringOfJob();
  ASSERT_TRUE(ring);
  ring->header().recording = 0;
  // What was recorded before the pause comes all the same.
  EXPECT_TRUE(eventually([&] {
    size_t n = 0;
    ring->snapshot([&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::kernel; });
    return n == 5;
  }));
  ASSERT_TRUE(eventually([&] { return test::exists(dir_ / "b"); })) << job.err();
  ring->header().recording = 1;
  const Output o = job.wait();
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{1, 5}, {3, 3}}));
}

TEST_F(ProbeTest, ModeChangesAtRunTime) {
  Child job(underRun({"calls 2", "touch " + (dir_ / "a"), "file " + (dir_ / "b"), "calls 3"}), environment());
  ASSERT_TRUE(eventually([&] { return test::exists(dir_ / "a"); })) << job.err();
  auto ring = ringOfJob();
  ASSERT_TRUE(ring);
  ring->header().mode = 2;
  // The probe says when it began anew.
  EXPECT_TRUE(eventually([&] {
    size_t n = 0;
    ring->snapshot([&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::gpu_on; });
    return n == 2;
  }));
  test::writeFile(dir_ / "b", "");
  EXPECT_EQ(job.wait().rc, 0);
  EXPECT_EQ(rows(trace(), "events", "type", "runtime").size(), 3u);
  EXPECT_EQ(rows(trace(), "events", "type", "driver").size(), 3u);
}

TEST_F(ProbeTest, WatchModeRecordsSomeStepsOfMany) {
  const Output o =
      run({"later",   "step 1",      "init",   "kernels 9 9", "step 3",      "on",     "step 4",      "kernels 3 1",
           "stepped", "kernels 1 2", "step 5", "off",         "kernels 5 3", "step 6", "kernels 5 4", "step 7",
           "on",      "step 8",      "kinds",  "kernels 2 5", "step 9",      "off",    "kernels 7 6", "stepped"},
          {"--mode", "watch", "--window", "1/4"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "1 2 10 22\n") << "graphs are not timed as a whole: that crashes jobs whose graphs are older";
  expectAllRecorded();
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{1, 3}, {2, 1}, {5, 2}}));
  std::vector<std::string> marks;
  for (const Row& m : rows(trace(), "events", "type", "marker")) marks.push_back(m.s("name"));
  const std::string on = "tracesmith: GPU records on", off = "tracesmith: GPU records off";
  EXPECT_EQ(marks, (std::vector<std::string>{off, on, off, on, off}));
  EXPECT_EQ(rows(trace(), "steps").size(), 8u) << "steps are always recorded";
  EXPECT_TRUE(has(o.err, "the GPU is recorded in 1 of every 4 steps; what it costs is not known")) << o.err;
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(ProbeTest, GraphsOlderThanAWindowAreRecordedByTheirKernels) {
  const Output o =
      run({"step 1", "graphs 2", "step 3", "on", "step 4", "graphs 2", "step 5", "off", "graphs 2", "stepped"},
          {"--mode", "watch", "--window", "1/4"});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_EQ(kernels().size(), 6u) << "three of each graph";
  EXPECT_TRUE(rows(trace(), "events", "type", "graph").empty());
}

TEST_F(ProbeTest, AWindowThatCostsTooMuchIsThinnedToKeepToTheBudget) {
  // A launch takes 20 ms more while kernels are recorded: many times a step.
  const Output o = run({"train 0 400"}, {"--mode", "watch", "--window", "2/20", "--budget", "20%", "--json"},
                       {{"FAKE_CUPTI_DEAR_US", "20000"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  auto number = [](const std::string& json, const std::string& key) {
    const size_t at = json.find("\"" + key + "\":");
    return at == json.npos ? -1 : std::strtod(json.c_str() + at + key.size() + 3, nullptr);
  };
  const double every = number(o.err, "window_every"), cost = number(o.err, "cost_percent");
  EXPECT_EQ(number(o.err, "window_asked"), 20) << o.err;
  EXPECT_EQ(number(o.err, "budget_percent"), 20) << o.err;
  EXPECT_GE(every, 40) << o.err;
  for (int n = 20; n <= every; n *= 2) EXPECT_EQ(std::fmod(every, n), 0) << "not doubled";
  EXPECT_GT(cost, 0) << o.err;
  EXPECT_LE(cost, 20) << o.err;
  const std::vector<Row> told = rows(trace(), "counters", "name", "tracesmith: cost %");
  ASSERT_GE(told.size(), 1u);
  EXPECT_GT(told[0].d("value"), 20);
  // The trace tells, too.
  const Output info = test::tracesmith({"info", "--json", trace()});
  EXPECT_EQ(number(info.out, "window_every"), every) << info.out;
  EXPECT_EQ(number(info.out, "cost_percent"), cost);
  const Output text = test::tracesmith({"info", trace()});
  EXPECT_TRUE(has(text.out, "(20 at first, doubled to keep to the budget of 20 %)")) << text.out;
}

TEST_F(ProbeTest, AWindowWithinTheBudgetStaysAsItWasAskedFor) {
  const Output o = run({"train 0 200"}, {"--mode", "watch", "--window", "2/20", "--budget", "90%"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.err, "recorded in 2 of every 20 steps; it costs ")) << o.err;
  EXPECT_TRUE(has(o.err, ", within the budget of 90 %")) << o.err;
  EXPECT_GE(rows(trace(), "counters", "name", "tracesmith: cost %").size(), 1u);
}

TEST_F(ProbeTest, WithoutStepsABudgetIsSaidToHaveNoEffect) {
  const Output o = run({"kernels 3"}, {"--mode", "watch", "--budget", "1%"});
  EXPECT_TRUE(has(o.err, "too few steps were marked, so the budget of 1 % has had no effect")) << o.err;
}

TEST(WatchWindow, ThinnedWindowsAreWindowsOfAllRanks) {
  for (const int64_t steps : {1, 2, 7})
    for (const int64_t every : {10, 100})
      for (int64_t step = -300; step < 3000; ++step)
        for (int64_t n = every; n < 16 * every; n *= 2)
          EXPECT_TRUE(!probe::stepInWindow(step, steps, 2 * n) || probe::stepInWindow(step, steps, n)) << step;
}

TEST_F(ProbeTest, WithoutStepsWatchModeRecordsPartsOfAPeriod) {
  // Half of every 2 s.
  const Output o = run({"on", "kernels 3 1", "off", "kernels 5 2", "on", "kernels 2 3"},
                       {"--mode", "watch", "--window", "1/2"}, {{"TRACESMITH_WINDOW_PERIOD_MS", "2000"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  expectAllRecorded();
  EXPECT_GE(rows(trace(), "events", "name", "tracesmith: GPU records off").size(), 1u);
}

TEST_F(ProbeTest, AnotherProfilerGetsAllItsBuffersAndTheProbeReturnsAfterIt) {
  const Output o = run(
      {"kernels 5 1", "profile", "kernels 6 2", "profiled", "kernels 9 3", "on", "kernels 4 4", "settle", "counts"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "given 1 returned 1 kernels 6 foreign 0\n");
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{1, 5}, {4, 4}})) << "the other's are the other's";
  EXPECT_EQ(losses(trace()), (std::map<std::string, int64_t>{{"another profiler", 1}}));
  std::map<std::string, int64_t> marks;
  for (const Row& m : rows(trace(), "events", "type", "marker")) marks[m.s("name")] = m.i("ts");
  ASSERT_EQ(marks.size(), 4u);
  EXPECT_LT(marks["tracesmith: stepped aside for another profiler"], marks["tracesmith: back"]);
  EXPECT_LT(marks["tracesmith: GPU records off"], marks["tracesmith: GPU records on"]) << "the gap is marked";
}

TEST_F(ProbeTest, AfterAnotherProfilerHasEndedCuptiTheProbeBeginsAnew) {
  const Output o = run({"kernels 5 1", "settle", "profile", "kernels 6 2", "finalize", "kernels 9 3", "on",
                        "kernels 4 4", "settle", "counts"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "given 1 returned 1 kernels 6 foreign 0\n");
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{1, 5}, {4, 4}})) << "in our clock again";
  EXPECT_EQ(losses(trace()), (std::map<std::string, int64_t>{{"another profiler", 1}}));
}

TEST_F(ProbeTest, AProfilerThatWasThereFirstKeepsCupti) {
  const Output o =
      run({"later", "profile", "init", "kernels 6 2", "profiled", "on", "kernels 4 4", "settle", "counts"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "given 1 returned 1 kernels 6 foreign 0\n");
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{4, 4}}));
}

TEST_F(ProbeTest, AForkedChildLeavesTheParentsRingAlone) {
  const Output o = run({"kernels 3 1", "settle", "fork kernels 5 2", "fork exit 4", "kernels 2 3"});
  EXPECT_EQ(o.rc, 0) << o.err;
  std::map<int64_t, int> by_stream;
  for (const Row& k : kernels()) ++by_stream[k.i("stream")];
  EXPECT_EQ(by_stream, (std::map<int64_t, int>{{1, 3}, {3, 2}}));
  EXPECT_TRUE(losses(trace()).empty());
}

struct Death {
  const char* command;
  int rc;
  friend void PrintTo(const Death& d, std::ostream* out) { *out << d.command; }
};
class SuddenEnd : public ProbeTest, public ::testing::WithParamInterface<Death> {};

INSTANTIATE_TEST_SUITE_P(Ways, SuddenEnd,
                         ::testing::Values(Death{"_exit 7", 7}, Death{"abort", 128 + SIGABRT},
                                           Death{"kill", 128 + SIGKILL}, Death{"segv", 128 + SIGSEGV}));

TEST_P(SuddenEnd, LeavesEverythingUpToTheLastFlush) {
  Child job(underRun({"kernels 50 1", "copies 5", "file " + (dir_ / "die"), "kernels 20 2", GetParam().command}),
            environment());
  auto ring = ringOfJob();
  ASSERT_TRUE(ring) << job.err();
  ASSERT_TRUE(eventually([&] {
    size_t n = 0;
    ring->snapshot(
        [&](uint32_t, const ring::Record& r) { n += r.kind == ring::Kind::kernel || r.kind == ring::Kind::memcpy; });
    return n == 55;
  }));
  test::writeFile(dir_ / "die", "");
  const Output o = job.wait();
  EXPECT_EQ(o.rc, GetParam().rc) << o.err;
  auto reader = trace::Reader::open(trace());
  ASSERT_TRUE(reader);
  EXPECT_TRUE((*reader)->closed());
  std::vector<std::string> all = made(), got = recorded();
  std::sort(all.begin(), all.end());
  std::sort(got.begin(), got.end());
  EXPECT_TRUE(std::includes(all.begin(), all.end(), got.begin(), got.end())) << "something that was never there";
  size_t first = 0;
  for (const Row& k : kernels()) first += k.i("stream") == 1;
  EXPECT_EQ(first, 50u);
  EXPECT_EQ(rows(trace(), "events", "type", "memcpy").size(), 5u);
}

TEST_F(ProbeTest, ARingLeavesTheJobMostOfTheRoomThereIs) {
  // As in a container with 64 MB of shared memory.
  const Output o = run({"kernels 100"}, {}, {{"TRACESMITH_RING_ROOM_MB", "64"}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(kernels().size(), 100u);
  EXPECT_TRUE(has(o.err, "little room for the ring")) << o.err;
  Child job(underRun({"touch " + (dir_ / "up"), "file " + (dir_ / "end")}),
            environment({{"TRACESMITH_RING_ROOM_MB", "64"}}));
  ASSERT_TRUE(eventually([&] { return test::exists(dir_ / "up"); })) << job.err();
  auto ring = ringOfJob();
  ASSERT_TRUE(ring);
  EXPECT_LE(ring->header().lane0_records * sizeof(ring::Record) + ring->header().strings_bytes, 16u << 20);
  test::writeFile(dir_ / "end", "");
  EXPECT_EQ(job.wait().rc, 0);
}

TEST_F(ProbeTest, NoRoomForARingIsSaidAndDoesNoHarm) {
  // Under a limit on the size of files no ring can be made.
  const std::string command = "ulimit -f 64; exec " + kBuild + "/bin/tests/fake_cuda 'kernels 3' 'print fine' 'exit 5'";
  const Output o =
      test::runWith(environment(), {TRACESMITH_BIN, "run", "--force", "-o", trace(), "--", "sh", "-c", command});
  EXPECT_EQ(o.rc, 5) << o.err;
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "File too large")) << o.err;
}

}  // namespace
}  // namespace tracesmith
