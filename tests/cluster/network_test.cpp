// Nothing is lost over networks that are slow, silent, one way, breaking off or away; and what is said meanwhile.
#include <thread>

#include "cluster/cluster_fixture.hpp"
#include "support/tcp_relay.hpp"

namespace tracesmith::cluster {
namespace {

class Network : public ClusterFixture {
 protected:
  void begin(const std::vector<std::string>& master = {}) {
    startMaster(master);
    relay_ = std::make_unique<test::TcpRelay>(port_);
    dial_ = relay_->address();
    agent_ = agent("alpha");
    ASSERT_TRUE(connected(1));
    ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
    ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  }
  void stopAndCheck(int64_t count) {
    const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt", "--wait", "60"});
    ASSERT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete") && !has(o.out, "incomplete")) << o.out << o.err;
    expectAllOnce(dir_ / "all.sbt", count);
    EXPECT_TRUE(test::losses(dir_ / "all.sbt").empty());
  }
  void runJob(uint64_t count) { ASSERT_EQ(job(count, 100000)->wait().rc, 0); }

  std::unique_ptr<test::TcpRelay> relay_;
  std::unique_ptr<Child> agent_;
};

TEST_F(Network, SilentForAWhileAndBack) {
  begin({"--node-timeout", "4000"});  // agents speak every second: less would be a matter of luck
  relay_->silent = true;
  runJob(30000);
  // The master says that it does not hear the node; the data of the session is marked.
  EXPECT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"healthy\":false"); }));
  EXPECT_TRUE(has(command({"status"}).out, "silent")) << command({"status"}).out;
  EXPECT_TRUE(has(command({"sessions", "--json"}).out, "\"healthy\":false"));
  relay_->silent = false;
  EXPECT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"healthy\":true"); }));
  stopAndCheck(30000);
}

TEST_F(Network, CutOffAndBack) {
  begin();
  relay_->refusing = true;
  ASSERT_TRUE(connected(0));
  runJob(30000);
  EXPECT_TRUE(eventually([&] { return has(agent_->err(), "cannot reach the master"); })) << agent_->err();
  relay_->refusing = false;
  ASSERT_TRUE(connected(1));
  stopAndCheck(30000);
}

TEST_F(Network, OverAnInterfaceThatWasNamed) {
  startMaster();
  const Output none =
      test::runWith(environment(), {TRACESMITH_BIN, "cluster", "agent", "--interface", "nosuch0", "--port", "0",
                                    "--data-dir", dir_ / "a-beta", "--master", address()});
  EXPECT_EQ(none.rc, 1);
  EXPECT_TRUE(has(none.err, "there is no network interface nosuch0; there are: lo")) << none.err;
  agent_ = agent("alpha", {"--interface", "lo"});
  ASSERT_TRUE(connected(1)) << agent_->err();
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  runJob(30000);
  stopAndCheck(30000);
}

TEST_F(Network, NoFasterThanItMay) {
  startMaster();
  agent_ = agent("alpha", {"--max-rate", "0.001"});
  ASSERT_TRUE(connected(1)) << agent_->err();
  ASSERT_EQ(command({"start", "--name", "all"}).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-alpha/agent/captures"), " "); }));
  runJob(30000);
  // Records wait, but the node is heard.
  std::string nodes;
  EXPECT_TRUE(eventually([&] {
    nodes = command({"nodes", "--json"}).out;
    return has(nodes, "\"healthy\":true") && !has(nodes, "\"spool_bytes\":0,") && !has(nodes, "\"sent_bytes\":0,");
  })) << nodes;
  // All of it would take half a minute.
  agent_.reset();
  agent_ = agent("alpha");
  stopAndCheck(30000);
}

TEST_F(Network, ASessionThatEndsWithoutANodeSaysSo) {
  begin({"--node-timeout", "500"});
  relay_->silent = true;
  runJob(1000);
  ASSERT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"healthy\":false"); }));
  const Output o = command({"stop", "--name", "all", "-o", dir_ / "part.sbt"});
  EXPECT_EQ(o.rc, 0);
  EXPECT_TRUE(has(o.out, "incomplete")) << o.out;
  EXPECT_TRUE(has(o.err, "node alpha does not answer: its data is incomplete")) << o.err;
  EXPECT_EQ(test::losses(dir_ / "part.sbt").count("not delivered"), 1u);
  relay_->silent = false;
  // It comes back and the session is completed after all.
  EXPECT_TRUE(eventually([&] { return has(command({"sessions", "--json"}).out, "\"state\":\"complete\""); }));
  ASSERT_EQ(command({"recover", "--name", "all", "--export", dir_ / "all.sbt"}).rc, 0);
  expectAllOnce(dir_ / "all.sbt", 1000);
}

TEST_F(Network, SlowAndBreakingOff) {
  begin();
  relay_->bytes_per_ms = 100;    // 100 KB/s at best
  relay_->break_every_ms = 100;  // in turns of the relay
  runJob(40000);
  EXPECT_TRUE(eventually([&] { return relay_->broken >= 3; }));
  relay_->break_every_ms = 0;
  relay_->bytes_per_ms = 0;
  ASSERT_TRUE(connected(1));
  stopAndCheck(40000);
}

TEST_F(Network, WhatIsDeliveredTwiceIsStoredOnce) {
  begin();
  // Data arrives, acknowledgements do not come back: after the connection breaks everything is sent again.
  relay_->one_way = true;
  runJob(20000);
  const int64_t before = nodeField("stored_bytes");
  EXPECT_TRUE(eventually([&] { return nodeField("stored_bytes") > before + 5000; }));
  relay_->refusing = true;
  ASSERT_TRUE(connected(0));
  relay_->refusing = false;
  relay_->one_way = false;
  ASSERT_TRUE(connected(1));
  stopAndCheck(20000);
}

TEST_F(Network, WithoutDatagramsTheClockIsComparedByCalls) {
  begin();  // the relay's address takes no datagrams
  const std::string reference = test::readFile(dir_ / "m/master/reference");
  const int64_t truth = std::stoll(reference.substr(reference.find(' ')));
  ASSERT_TRUE(eventually([&] { return nodeField("bound_ns") > 0; }));
  // Both run on this machine, so their clocks differ by exactly what the master keeps in its file. Two questions, so
  // the line between them may have moved; by no more than the bound that was printed.
  const int64_t bound = nodeField("bound_ns"), offset = nodeField("offset_ns");
  EXPECT_LE(std::abs(offset - truth), std::max(bound, nodeField("bound_ns")) + 1'000'000);
  runJob(1000);
  stopAndCheck(1000);
}

/// Two machines as the kernel plays them: a network namespace each end of a cable that can be unplugged.
class Namespaces : public Network {
 protected:
  void SetUp() override {
    name_ = "ts" + std::to_string(::getpid() % 100000);
    net_ = "10." + std::to_string(200 + ::getpid() % 50) + "." + std::to_string(::getpid() / 50 % 250) + ".";
    const Output o =
        sh("ip netns add " + name_ + " && ip link add " + name_ + "a type veth peer name " + name_ +
           "b && ip link set " + name_ + "b netns " + name_ + " && ip addr add " + net_ + "1/30 dev " + name_ +
           "a && ip link set " + name_ + "a up && ip netns exec " + name_ + " sh -c 'ip addr add " + net_ +
           "2/30 dev " + name_ + "b; ip link set " + name_ + "b up; ip link set lo up'");
    if (o.rc != 0) GTEST_SKIP() << "network namespaces cannot be made here: " << o.err;
  }
  void TearDown() override {
    agent_.reset();
    master_.reset();
    sh("ip link del " + name_ + "a; ip netns del " + name_);
  }
  static Output sh(const std::string& script) { return test::run({"sh", "-c", script}); }
  std::string name_, net_;  // of this process alone: others may run the same test
};

TEST_F(Namespaces, AnUnpluggedCableLosesNothing) {
  const std::string token = dir_ / "token";
  test::writeFile(token, "admin an-admin-token-01\n");
  ::chmod(token.c_str(), 0600);
  startMaster({"--listen", "0.0.0.0", "--token-file", token, "--node-timeout", "4000"});
  dial_ = net_ + "1:" + std::to_string(port_);
  wrapper_ = {"ip", "netns", "exec", name_};
  agent_ = agent("far", {"--token-file", token});
  const std::vector<std::string> show = {"--token-file", token};
  auto nodes = [&] { return command({"nodes", "--json"}, show).out; };
  ASSERT_TRUE(eventually([&] { return has(nodes(), "\"connected\":true"); })) << agent_->err();
  EXPECT_TRUE(has(nodes(), net_ + "2"));
  ASSERT_EQ(command({"start", "--name", "all"}, show).rc, 0);
  ASSERT_TRUE(eventually([&] { return has(test::readFile(dir_ / "a-far/agent/captures"), " "); }));
  ASSERT_EQ(sh("ip link set " + name_ + "a down").rc, 0);
  runJob(30000);
  EXPECT_TRUE(eventually([&] { return has(nodes(), "\"healthy\":false"); }));
  ASSERT_EQ(sh("ip link set " + name_ + "a up").rc, 0);
  EXPECT_TRUE(eventually([&] { return has(nodes(), "\"healthy\":true"); })) << agent_->err();
  const Output o = command({"stop", "--name", "all", "-o", dir_ / "all.sbt", "--wait", "60"}, show);
  ASSERT_EQ(o.rc, 0) << o.err;
  expectAllOnce(dir_ / "all.sbt", 30000);
}

}  // namespace
}  // namespace tracesmith::cluster
