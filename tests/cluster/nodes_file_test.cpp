// cluster master --nodes: nodes that are declared are invited, and what is declared of them holds.
#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class NodesFile : public ClusterFixture {
 protected:
  std::string file(const std::string& text) const {
    test::writeFile(dir_ / "nodes.yaml", text);
    return dir_ / "nodes.yaml";
  }
  /// An agent that waits for an invitation.
  std::unique_ptr<Child> lonely(const std::string& node, uint16_t port) {
    auto child = std::make_unique<Child>(
        std::vector<std::string>{TRACESMITH_BIN, "cluster", "agent", "--port", std::to_string(port), "--node-id", node,
                                 "--data-dir", dir_ / ("a-" + node), "--sim", "2"},
        environment());
    EXPECT_TRUE(eventually([&] { return has(child->out(), "listens") || !child->running(); }));
    return child;
  }
  bool nodes(const std::string& part) const {
    return eventually([&] { return has(command({"nodes", "--json"}).out, part); });
  }
};

TEST_F(NodesFile, NodesAreInvitedUntilTheyCome) {
  const uint16_t port = freePort();
  startMaster({"--nodes", file("nodes:\n"
                               "  - name: alpha\n"
                               "    address: 127.0.0.1:" +
                               std::to_string(port) +
                               "\n"
                               "    price_per_hour: 12.5\n"
                               "    capabilities:\n"
                               "      gpu_matrix_tflops: {gpu 0 fp8: 640}\n"
                               "      link_gbps: {0-1: 370}\n"
                               "  - name: beta\n")});
  EXPECT_TRUE(nodes("cannot reach the agent at 127.0.0.1:" + std::to_string(port))) << command({"nodes"}).out;
  const auto alpha = lonely("alpha", port);
  ASSERT_TRUE(connected(1)) << command({"nodes", "--json"}).out << alpha->err();
  const std::string json = command({"nodes", "--json"}).out;
  EXPECT_TRUE(has(json, R"("price_per_hour":12.5)")) << json;
  EXPECT_TRUE(has(json, R"("price_per_hour":null)")) << json;
  EXPECT_TRUE(nodes(R"("part":"gpu 0 fp8","name":"gpu_matrix_tflops")")) << json;
  EXPECT_TRUE(nodes(R"("measured_gbps":370)")) << json;  // what choosing and placing look at
  EXPECT_TRUE(has(command({"nodes"}).out, "price/hour"));
}

TEST_F(NodesFile, AnAgentOfAnotherNameIsTold) {
  const uint16_t port = freePort();
  const auto other = lonely("other", port);
  startMaster({"--nodes", file("nodes: [{name: alpha, address: \"127.0.0.1:" + std::to_string(port) + "\"}]\n")});
  EXPECT_TRUE(nodes("is node other: change the name in nodes.yaml")) << command({"nodes"}).out;
}

TEST_F(NodesFile, AFileWithAMistakeIsOneLine) {
  const std::pair<std::string, std::string> mistakes[] = {
      {"nodes:\n  - name: a\n    adress: b\n", "line 3: there is no field `adress`"},
      {"nodes:\n  - name: a\n    price_per_hour: much\n", "line 3: `price_per_hour` must be a number"},
      {"nodes:\n  - address: b\n", "line 2: a node has no `name`"},
      {"nodes:\n  - name: ../a\n", "name"},
      {"nodes:\n  - {name: a, address: \"a:b:c\"}\n", "the address of node a"},
      {"nodes:\n  - name: a\n  - name: a\n", "line 3: node a is declared twice"},
      {"- a\n", "has no list `nodes`"},
      {"nodes: [", "line "},
  };
  for (const auto& [text, message] : mistakes) {
    const Output o = test::runWith(environment(), {TRACESMITH_BIN, "cluster", "master", "--port", "0", "--http-port",
                                                   "0", "--data-dir", dir_ / "m", "--nodes", file(text)});
    EXPECT_EQ(o.rc, 1) << text;
    EXPECT_TRUE(has(o.err, message)) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

}  // namespace
}  // namespace tracesmith::cluster
