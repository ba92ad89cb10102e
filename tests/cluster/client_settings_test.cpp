// What a user need not type: the master and the token, from the environment or from a file.
#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

constexpr const char* kToken = "only-looking-around-here";

class ClientSettings : public ClusterFixture {
 protected:
  void SetUp() override {
    test::writeFile(dir_ / "tokens", std::string("viewer ") + kToken + "\n");
    ::chmod((dir_ / "tokens").c_str(), 0600);
    startMaster({"--token-file", dir_ / "tokens"});
  }
  Output nodes(test::Environment more, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {TRACESMITH_BIN, "cluster", "nodes"});
    test::Environment all = environment();
    all.emplace_back("XDG_CONFIG_HOME", dir_ / "config");
    all.insert(all.end(), more.begin(), more.end());
    return test::runWith(all, options);
  }
  std::string file(const std::string& text, mode_t mode) const {
    test::writeFile(dir_ / "client.conf", text);
    ::chmod((dir_ / "client.conf").c_str(), mode);
    return dir_ / "client.conf";
  }
};

TEST_F(ClientSettings, ComeFromTheEnvironment) {
  const Output o = nodes({{"TRACESMITH_MASTER", address()}, {"TRACESMITH_TOKEN", kToken}});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(nodes({{"TRACESMITH_MASTER", address()}}).err, "a token is required"));
}

TEST_F(ClientSettings, ComeFromAFile) {
  const std::string text = "# the cluster\nmaster = " + address() + "\n token=" + kToken + " \n";
  EXPECT_EQ(nodes({{"TRACESMITH_CONFIG", file(text, 0600)}}).rc, 0);
  // A secret that others can read is none.
  const Output o = nodes({{"TRACESMITH_CONFIG", file(text, 0644)}});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "client.conf")) << o.err;
  ::mkdir((dir_ / "config").c_str(), 0700);
  ::mkdir((dir_ / "config/tracesmith").c_str(), 0700);
  test::writeFile(dir_ / "config/tracesmith/client.conf", text);
  ::chmod((dir_ / "config/tracesmith/client.conf").c_str(), 0600);
  EXPECT_EQ(nodes({}).rc, 0);
}

TEST_F(ClientSettings, OptionsComeFirstThenTheEnvironment) {
  const std::string conf = file("master = 127.0.0.1:1\ntoken = nobody-knows-this-one\n", 0600);
  EXPECT_EQ(nodes({{"TRACESMITH_CONFIG", conf}, {"TRACESMITH_MASTER", address()}, {"TRACESMITH_TOKEN", kToken}}).rc, 0);
  EXPECT_EQ(nodes({{"TRACESMITH_CONFIG", conf}, {"TRACESMITH_MASTER", "127.0.0.1:2"}},
                  {"--master", address(), "--token", kToken})
                .rc,
            0);
  EXPECT_TRUE(has(nodes({{"TRACESMITH_CONFIG", conf}}).err, "cannot reach the master at 127.0.0.1:1"));
}

TEST_F(ClientSettings, AFileThatCannotBeUnderstoodIsOneLine) {
  Output o = nodes({{"TRACESMITH_CONFIG", file("mister = here\n", 0600)}});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "client.conf line 1: unknown name \"mister\"")) << o.err;
  o = nodes({{"TRACESMITH_CONFIG", file("\nmaster\n", 0600)}});
  EXPECT_TRUE(has(o.err, "client.conf line 2: expected NAME = VALUE")) << o.err;
  o = nodes({{"TRACESMITH_CONFIG", dir_ / "none"}});
  EXPECT_EQ(o.err, "tracesmith: cannot read " + (dir_ / "none") + "\n");
}

}  // namespace
}  // namespace tracesmith::cluster
