// gsprof, as gswarm's users type it: a head, a client, sessions over both ports, NAME.json, statistics.
#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

class Gsprof : public cluster::ClusterFixture {
 protected:
  Gsprof() : http_("127.0.0.1:" + std::to_string(freePort())) {}
  /// What runs `gsprof WORDS` in the test's folder.
  std::vector<std::string> words(std::vector<std::string> more) const {
    const std::string bin = TRACESMITH_BIN;
    std::vector<std::string> all = {"/bin/sh", "-c", "cd '" + dir_.path() + "' && exec \"$@\"", "sh",
                                    bin.substr(0, bin.rfind('/')) + "/gsprof"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Output gsprof(std::vector<std::string> more) const { return test::runWith(environment(), words(std::move(more))); }
  std::unique_ptr<test::Child> serve(std::vector<std::string> more) const {
    auto child = std::make_unique<test::Child>(words(std::move(more)), environment());
    EXPECT_TRUE(eventually([&] { return has(child->out(), "listens") || !child->running(); }));
    EXPECT_TRUE(child->running()) << child->err();
    return child;
  }

  const std::string http_;
};

TEST_F(Gsprof, ItsCommandsRecordAndWriteFrames) {
  auto head = serve({"start", "--port", std::to_string(port_), "--http-port", http_.substr(http_.find(':') + 1),
                     "--enable-bandwidth", "--freq", "50"});
  auto client = serve({"connect", address(), "--resilient", "--node-id", "n1", "--sim", "1"});
  ASSERT_TRUE(eventually([&] { return has(gsprof({"http-status", http_}).out, "1 client, 1 GPU"); })) << head->err();
  Output o = gsprof({"http-stop", http_});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: Profiling is not active.\n");
  o = gsprof({"http-profile", http_, "--name", "one"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "/one.json")) << o.out;
  EXPECT_EQ(gsprof({"profile", address(), "--name", "two"}).rc, 0);
  EXPECT_EQ(gsprof({"profile", address(), "--name", "two"}).rc, 1) << "there is one of that name";
  EXPECT_TRUE(has(gsprof({"status", address()}).out, "n1"));
  ASSERT_TRUE(eventually([&] { return has(gsprof({"http-status", http_}).out, "profiling one, 1"); }));
  EXPECT_EQ(gsprof({"http-stop", http_, "--name", "one"}).rc, 0);
  EXPECT_EQ(gsprof({"stop", address()}).rc, 0);
  for (const char* file : {"one.json", "two.json"})
    ASSERT_TRUE(eventually([&] { return test::readFile(dir_ / file).ends_with("}\n"); })) << head->err();
  o = gsprof({"recover", "--export", "--name", "one", "--head", address()});
  EXPECT_TRUE(o.rc == 0 && has(o.out, "one-2.json: session one")) << o.out << o.err;
  o = gsprof({"stat", "--data", "one-2.json"});
  EXPECT_TRUE(o.rc == 0 && has(o.out, "n1:0:Simulated H100") && has(o.out, "PCIe GB/s")) << o.out << o.err;
}

TEST_F(Gsprof, MistakesAreOneClearLine) {
  EXPECT_EQ(gsprof({"http-status", http_}).err, "tracesmith: cannot reach http://" + http_ + "/status\n");
  EXPECT_EQ(gsprof({"profile"}).rc, 2);
  EXPECT_EQ(gsprof({"recover", "--list", "--export"}).rc, 2);
  const Output o = gsprof({"strat"});
  EXPECT_TRUE(o.rc == 2 && has(o.err, "Did you mean 'start'?")) << o.err;
  EXPECT_TRUE(has(gsprof({"http-profile", "--help"}).out, "gsprof http-profile head:8091 --name my_experiment"));
}

}  // namespace
}  // namespace tracesmith::server
