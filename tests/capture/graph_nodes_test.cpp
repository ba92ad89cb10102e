// Nodes of CUDA graphs: what they were captured from is recorded with them and with their copies.
#include "capture/probe_fixture.hpp"

namespace tracesmith {
namespace {

TEST_F(ProbeTest, NodesOfAGraphAndTheirCopiesAreRecordedWithWhatTheyWereCapturedFrom) {
  const Output o = run({"capture", "name model (Gpt) > head (Linear)", "node", "node", "name", "node", "captured",
                        "node", "replay", "settle"},
                       {"--graph-nodes"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "capture 1\n");
  std::map<int64_t, int> nodes;
  for (const Row& n : rows(trace(), "graph_nodes")) {
    EXPECT_EQ(n.s("module"), "head");
    EXPECT_EQ(n.s("modules"), "model (Gpt) > head (Linear)");
    EXPECT_EQ(n.s("phase"), "forward");
    EXPECT_TRUE(n.null("op"));
    EXPECT_EQ(n.i("graph"), n.i("graph_node") >> 32);
    ++nodes[n.i("graph_node")];
  }
  EXPECT_EQ(nodes.size(), 4u) << "two, and their copies";
  int replayed = 0, named = 0;
  for (const Row& k : kernels()) {
    ++replayed;
    named += nodes.contains(k.i("graph_node"));
  }
  EXPECT_EQ(replayed, 4);
  EXPECT_EQ(named, 2);
  EXPECT_TRUE(losses(trace()).empty());
}

TEST_F(ProbeTest, AnotherProfilerMaySubscribeWhileAGraphIsCaptured) {
  const Output o = run({"capture", "name a (A)", "node", "subscribe", "node", "captured", "capture", "node"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(o.out, "capture 1\nsubscribe 0\ncapture 0\n");
  EXPECT_EQ(rows(trace(), "graph_nodes").size(), 1u);
}

TEST_F(ProbeTest, NobodyIsSubscribedOutsideOfCaptures) {
  const Output o = run({"capture", "name a (A)", "node", "name", "captured", "subscribe"});
  EXPECT_EQ(o.out, "capture 1\nsubscribe 0\n") << o.err;
  EXPECT_EQ(rows(trace(), "graph_nodes").size(), 2u);
}

}  // namespace
}  // namespace tracesmith
