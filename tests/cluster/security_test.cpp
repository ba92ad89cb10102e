// Closed by default: who may come in, what they may do. What happens to those who speak garbage: hostile_test.cpp.
#include <sys/stat.h>

#include <algorithm>

#include "cluster/cluster_fixture.hpp"

namespace tracesmith::cluster {
namespace {

class Security : public ClusterFixture {
 protected:
  std::string secret(const std::string& name, const std::string& text) {
    const std::string path = dir_ / name;
    test::writeFile(path, text);
    ::chmod(path.c_str(), 0600);
    return path;
  }
};

TEST_F(Security, BeyondThisMachineAServerNeedsATokenOrCertificates) {
  for (const char* what : {"master", "agent"}) {
    const Output o =
        test::tracesmith({"cluster", what, "--listen", "0.0.0.0", "--port", "0", "--data-dir", dir_ / "x"});
    EXPECT_EQ(o.rc, 1);
    EXPECT_TRUE(has(o.err, "--token-file")) << o.err;
  }
  test::writeFile(dir_ / "open", "0123456789abcdef");
  const Output o =
      test::tracesmith({"cluster", "master", "--port", "0", "--token-file", dir_ / "open", "--data-dir", dir_ / "x"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "chmod 600")) << o.err;
}

TEST_F(Security, RolesSayWhatATokenMayDo) {
  const std::string tokens =
      secret("tokens",
             "# who may do what\nviewer viewer-token-0123456\noperator operator-token-0123\nadmin "
             "admin-token-0123456\n");
  const std::string viewer = secret("viewer", "viewer-token-0123456\n"),
                    operator_ = secret("operator", "operator-token-0123\n"),
                    admin = secret("admin", "admin admin-token-0123456\n"),
                    wrong = secret("wrong", "wrong-token-01234567\n");
  startMaster({"--token-file", tokens});
  auto refused = [&](const std::vector<std::string>& argv, const std::string& token) {
    const Output o =
        command(argv, token.empty() ? std::vector<std::string>{} : std::vector<std::string>{"--token-file", token});
    return o.rc == 1 ? o.err : std::string();
  };
  EXPECT_TRUE(has(refused({"status"}, ""), "a token is required"));
  EXPECT_TRUE(has(refused({"status"}, wrong), "unknown token"));
  EXPECT_EQ(refused({"status"}, viewer), "");
  EXPECT_TRUE(has(refused({"start", "--name", "s"}, viewer), "has the role viewer; this needs operator"));
  EXPECT_EQ(refused({"start", "--name", "s"}, operator_), "");
  EXPECT_TRUE(has(refused({"add-node", "--address", "127.0.0.1:1"}, operator_), "this needs admin"));
  EXPECT_TRUE(has(refused({"add-node", "--address", "127.0.0.1:1"}, admin), "cannot reach the agent"));

  auto stranger = agent("stranger", {"--token-file", viewer});
  EXPECT_TRUE(eventually([&] { return has(stranger->err(), "this needs operator"); })) << stranger->err();
  auto good = agent("good", {"--token-file", operator_});
  EXPECT_TRUE(eventually([&] { return has(good->err(), "connected to the master"); })) << good->err();

  for (int i = 0; i < 12; ++i) refused({"status"}, wrong);
  EXPECT_TRUE(has(refused({"status"}, wrong), "too many wrong tokens"));
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  EXPECT_TRUE(has(audit, "\"role\":\"operator\",\"action\":\"start\",\"what\":\"s\",\"ok\":true")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"admin\",\"action\":\"add-node\",\"what\":\"127.0.0.1:1\",\"ok\":false")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"viewer\",\"action\":\"refused\",\"what\":\"operator\",\"ok\":false")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"none\",\"action\":\"refused\"")) << audit;
  EXPECT_FALSE(has(audit, "token-0123")) << "secrets are not written down";
  EXPECT_LE(std::count(audit.begin(), audit.end(), '\n'), 40) << "a guesser does not fill the disk";
}

TEST_F(Security, TwoAgentsCannotBeOneNode) {
  startMaster();
  auto a = agent("same");
  ASSERT_TRUE(connected(1));
  agent_data_ = dir_ / "elsewhere";
  auto b = agent("same");
  EXPECT_TRUE(eventually([&] { return has(b->err(), "is already connected: give this agent another --node-id"); }))
      << b->err();
}

}  // namespace
}  // namespace tracesmith::cluster
