// The examples do what they say.
#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

using Examples = ClusterFixture;

TEST_F(Examples, AMasterAndTwoAgentsMakeOneTrace) {
  const std::string folder = std::string(TRACESMITH_BUILD_DIR) + "/bin/examples/";
  Child master({folder + "cluster_master_example", "2", std::to_string(port_), dir_ / "m", dir_ / "out"},
               environment());
  ASSERT_TRUE(eventually([&] { return has(master.out(), "listening") || !master.running(); }));
  Child a({folder + "cluster_agent_example", address(), "one", "1", "60", dir_ / "a"}, environment());
  Child b({folder + "cluster_agent_example", address(), "two", "2", "60", dir_ / "b"}, environment());
  const Output o = master.wait();
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "2 nodes, 3 GPUs")) << o.out;
  EXPECT_TRUE(has(o.out, "clock of one"));
  EXPECT_TRUE(has(o.out, "events seen live, 0 came too fast")) << o.out;
  EXPECT_FALSE(has(o.out, "\n0 events seen live")) << o.out;
  EXPECT_TRUE(has(o.out, "the first of ")) << o.out;
  EXPECT_TRUE(has(a.out(), " events of its own in ")) << a.out() << a.err();
  EXPECT_GT(test::rows(dir_ / "out.sbt", "events").size(), 100u);
  EXPECT_TRUE(test::exists(dir_ / "out.pftrace"));
  EXPECT_TRUE(has(test::readFile(dir_ / "out.json"), "traceEvents"));
}

}  // namespace
}  // namespace tracesmith::cluster
