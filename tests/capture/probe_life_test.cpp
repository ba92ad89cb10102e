// Other profilers, forks, sudden ends and rings without room: the probe gives way, and the trace has what there was.
#include <signal.h>

#include "capture/probe_fixture.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith {
namespace {

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

TEST_F(ProbeTest, AProcessEndsWhetherOrNotCuptiAnswers) {
  const std::string stuck = dir_ / "stuck";
  const Output o = run({"kernels 5", "file " + stuck, "print fine", "exit 3"}, {}, {{"FAKE_CUPTI_STUCK", stuck}});
  EXPECT_EQ(o.rc, 3) << o.err;
  EXPECT_EQ(o.out, "fine\n");
  EXPECT_TRUE(has(o.err, "CUPTI did not answer when the process ended")) << o.err;
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
