// A capture begins at one instant on all nodes, whatever their clocks say.
#include <fstream>

#include "cluster/cluster_fixture.hpp"
#include "support/capture_edges.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int64_t kStampNs = 5000;  // as well as numbered_job knows when it wrote

class Skew : public ClusterFixture {};

TEST_F(Skew, ACaptureIsCutWithinTheBoundsPrintedOnClocksSecondsApart) {
  struct Node {
    std::string name, offset_ns, ppm;
    std::unique_ptr<Child> agent, job;
  };
  Node nodes[] = {
      {"alpha", "0", "0", {}, {}}, {"beta", "7123456789", "100", {}, {}}, {"gamma", "3600000000000", "-100", {}, {}}};
  startMaster();
  for (Node& n : nodes) {
    const std::string folder = dir_ / ("rings-" + n.name);
    ::mkdir(folder.c_str(), 0700);
    wrapper_ = {"/usr/bin/env",
                "LD_PRELOAD=" + std::string(TRACESMITH_BUILD_DIR) + "/lib/libstep_clock.so",
                "SKEW_RAW_NS=" + n.offset_ns,
                "SKEW_RAW_PPM=" + n.ppm,
                "TRACESMITH_DIR=" + folder,
                "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"};
    n.agent = agent(n.name);
    std::vector<std::string> argv = wrapper_;
    argv.insert(argv.end(), {std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/numbered_job", folder, "100000000",
                             "50000", "1048576", dir_ / ("truth-" + n.name)});
    n.job = std::make_unique<Child>(argv, environment());
  }
  ASSERT_TRUE(connected(3));
  const Output recorded = command({"record", "-o", dir_ / "r.sbt", "-d", "0.5"});
  ASSERT_EQ(recorded.rc, 0) << recorded.err;
  std::string boot;
  int64_t anchor = 0;
  std::ifstream(dir_ / "m/master/reference") >> boot >> anchor;
  const test::Row session = test::rows(dir_ / "r.sbt", "sessions").at(0);
  std::map<std::string, std::set<int64_t>> found;
  for (const test::Row& row : test::rows(dir_ / "r.sbt", "counters"))
    found[row.s("node")].insert(static_cast<int64_t>(row.d("value")));
  std::map<std::string, int64_t> bound;
  for (const test::Row& row : test::rows(dir_ / "r.sbt", "clocks"))
    if (!row.null("bound_ns")) bound[row.s("node")] = std::max(bound[row.s("node")], row.i("bound_ns"));
  for (Node& n : nodes) {
    n.job->signal(SIGTERM);
    ASSERT_EQ(n.job->wait().rc, 0);
    const test::CaptureEdges e = test::captureEdges(test::readTruth(dir_ / ("truth-" + n.name)), found[n.name],
                                                    session.i("ts_start") - anchor, session.i("ts_end") - anchor);
    EXPECT_TRUE(e.covered) << n.name;
    EXPECT_EQ(e.holes, 0) << n.name;
    ASSERT_GT(bound[n.name], 0) << n.name;
    EXPECT_LE(e.start_error_ns, bound[n.name] + kStampNs) << n.name;
    EXPECT_LE(e.end_error_ns, bound[n.name] + kStampNs) << n.name;
  }
}

}  // namespace
}  // namespace tracesmith::cluster
