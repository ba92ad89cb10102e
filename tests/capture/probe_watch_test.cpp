// Recording that pauses, changes or watches while the program runs.
#include <cmath>

#include "capture/probe/watch.hpp"
#include "capture/probe_fixture.hpp"

namespace tracesmith {
namespace {

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
  const Output o = run({"later", "step 1", "init", "graphs 2", "step 3", "on", "step 4", "graphs 2", "step 5", "off",
                        "graphs 2", "stepped"},
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

}  // namespace
}  // namespace tracesmith
