// Operations in CUDA graphs and by copy engines, under `tracesmith run`: each replay is a row with a number of its own,
// the same on all ranks.
#include <gtest/gtest.h>

#include "capture/under_run.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith {
namespace {

class GraphTest : public ::testing::Test {
 protected:
  Output run(const std::string& scenario, const std::vector<std::string>& flags, int ranks = 1) {
    std::string script;
    for (int rank = 0; rank < ranks; ++rank)
      script += "RANK=" + std::to_string(rank) + " " + kBuild + "/bin/tests/fake_nccl " + scenario + " & ";
    std::vector<std::string> argv = {TRACESMITH_BIN, "run", "--force", "-o", trace()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(),
                {"--", "/bin/sh", "-c", script + "for i in $(seq " + std::to_string(ranks) + "); do wait; done"});
    return test::runWith(
        {{"TRACESMITH_DIR", dir_ / "rings"}, {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"}}, argv);
  }
  std::string trace() const { return dir_ / "t.sbt"; }
  /// Rows of a rank in the order of the calls: "operation number".
  std::vector<std::string> called(int64_t rank) const {
    std::vector<Row> mine;
    for (Row& r : rows(trace(), "collectives"))
      if (r.i("rank") == rank) mine.push_back(r);
    std::stable_sort(mine.begin(), mine.end(),
                     [](const Row& a, const Row& b) { return a.i("ts_enqueue") < b.i("ts_enqueue"); });
    std::vector<std::string> out;
    for (const Row& r : mine) out.push_back(r.s("op") + " " + (r.null("seq") ? "?" : std::to_string(r.i("seq"))));
    return out;
  }

  TempDir dir_;
};

struct How {
  const char *mode, *name;
  bool nodes, proxy;
};
class Replays : public GraphTest, public ::testing::WithParamInterface<How> {};
INSTANTIATE_TEST_SUITE_P(All, Replays,
                         ::testing::Values(How{"default", "default", false, false},
                                           How{"default", "nodes", true, false}, How{"light", "light", false, false},
                                           How{"light", "light_nodes", true, false},
                                           How{"default", "proxy", false, true},
                                           How{"default", "proxy_nodes", true, true}),
                         [](const auto& how) { return how.param.name; });

TEST_P(Replays, HaveNumbersAmongTheOthers) {
  const How& how = GetParam();
  std::vector<std::string> flags = {"--mode", how.mode};
  if (how.nodes) flags.push_back("--graph-nodes");
  const Output o = run(how.proxy ? "proxy_replays" : "replays", flags, 2);
  ASSERT_EQ(o.rc, 0) << o.err;
  std::vector<std::string> expected = {"all_reduce 0"};
  for (int i = 0; i < 5; ++i) {
    expected.push_back("all_reduce " + std::to_string(3 * i + 1));  // of the graph
    expected.push_back("all_gather " + std::to_string(3 * i + 2));
    expected.push_back("all_reduce " + std::to_string(3 * i + 3));
  }
  for (int i = 0; i < 2; ++i) {
    expected.push_back("reduce_scatter " + std::to_string(16 + i));
    // NCCL tells the peers only with the first replay: that one is counted, but not known by its number.
    const std::string of_graph = how.proxy && i == 0 ? "?" : std::to_string(2 * i);
    for (const char* op : {"send ", "recv "}) expected.push_back(op + of_graph);
    for (const char* op : {"send ", "recv "}) expected.push_back(op + std::to_string(2 * i + 1));
  }
  for (int64_t rank : {0, 1}) EXPECT_EQ(called(rank), expected) << "rank " << rank;

  std::map<int64_t, Row> by_start;
  for (Row& r : rows(trace(), "events", "type", "kernel")) by_start[r.i("ts")] = r;
  size_t inside = 0;
  for (const Row& r : rows(trace(), "collectives")) {
    SCOPED_TRACE(r.s("op") + " " + std::to_string(r.i("seq")));
    const bool eager =
        r.i("elements") == 1 || (r.s("op") == "send" || r.s("op") == "recv" ? r.i("seq") % 2 == 1 : false);
    if (r.null("seq")) continue;
    inside += !eager;
    EXPECT_EQ(r.i("elements"), r.s("op") == "all_gather" ? 80 : r.i("elements"));
    if (!eager && !how.nodes) {
      EXPECT_TRUE(r.null("ts") && r.null("dur")) << "not measured";
      EXPECT_EQ(r.s("name"), "CUDA graph") << "and yet it has ended";
      EXPECT_FALSE(r.null("correlation"));
      continue;
    }
    ASSERT_FALSE(r.null("ts"));
    const Row& kernel = by_start[r.i("ts")];
    EXPECT_EQ(kernel.i("correlation"), r.i("correlation"));
    EXPECT_EQ(kernel.null("graph"), eager);
    EXPECT_LE(r.i("ts_enqueue"), r.i("ts"));
  }
  EXPECT_EQ(inside, how.proxy ? 2 * 14u : 2 * 16u);
  const auto hidden = static_cast<int64_t>(inside);
  EXPECT_EQ(losses(trace()), how.nodes ? (std::map<std::string, int64_t>{})
                                       : (std::map<std::string, int64_t>{{"operations in CUDA graphs", hidden}}));
}

TEST_F(GraphTest, AReplayThatDoesNotEndIsInFlight) {
  for (const char* nodes : {"", "--graph-nodes"}) {
    std::vector<std::string> flags;
    if (*nodes) flags.push_back(nodes);
    ASSERT_EQ(run("replay_hangs", flags).rc, 0);
    size_t open = 0, unknown = 0;
    for (const Row& r : rows(trace(), "collectives")) {
      if (r.s("op") == "reduce_scatter") {
        unknown += r.null("ts") && r.s("name") == "not recorded";
      } else if (r.i("seq") >= 4) {
        open += r.null("ts") && r.null("name") && r.null("correlation");
      } else {
        EXPECT_FALSE(r.null("name"));
      }
    }
    EXPECT_EQ(open, 2u) << nodes;
    EXPECT_EQ(unknown, 1u) << "whether a graph that was never seen to end would be seen nobody knows";
    EXPECT_EQ(rows(trace(), "events", "name", "recording ends, operations in flight").size(), 1u);
  }
}

class Copies : public GraphTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(V, Copies, ::testing::Values(6, 7));

TEST_P(Copies, AreTheKernelOfWhatCopyEnginesDo) {
  for (const char* mode : {"default", "light"}) {
    SCOPED_TRACE(mode);
    ASSERT_EQ(run("copies " + std::to_string(GetParam()), {"--mode", mode}).rc, 0);
    EXPECT_EQ(called(0), (std::vector<std::string>{"all_reduce 0", "all_gather 1", "all_reduce 2", "all_to_all 3",
                                                   "all_reduce 4"}));
    const std::vector<Row> copies = rows(trace(), "events", "type", "memcpy");
    ASSERT_EQ(copies.size(), 7u);
    const bool light = std::string(mode) == "light";
    for (const Row& r : rows(trace(), "collectives")) {
      if (r.s("op") == "all_reduce") {
        EXPECT_TRUE(r.s("name").starts_with("ncclDevKernel"));
        continue;
      }
      const size_t first = r.s("op") == "all_gather" ? 0 : 3;
      EXPECT_EQ(r.i("bytes"), first == 0 ? 400 : 8 * 800);
      if (light) {
        EXPECT_TRUE(r.null("ts")) << "which copies are its own nobody knows";
        EXPECT_EQ(r.s("name"), "not recorded");
      } else {
        EXPECT_EQ(r.i("ts"), copies[first].i("ts"));
        EXPECT_EQ(r.i("ts_end"), copies[first + 2].i("ts_end"));
        EXPECT_EQ(r.i("correlation"), copies[first].i("correlation"));
      }
    }
    EXPECT_EQ(losses(trace()), light ? (std::map<std::string, int64_t>{{"operations done by copy engines", 2}})
                                     : (std::map<std::string, int64_t>{}));
  }
}

}  // namespace
}  // namespace tracesmith
