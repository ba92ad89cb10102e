// Closed by default: who may come in, what they may do. What happens to those who speak garbage: hostile_test.cpp.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "cluster/cluster_fixture.hpp"
#include "tracesmith_cluster.grpc.pb.h"

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
  EXPECT_EQ(refused({"status"}, viewer), "") << "who has a token does not pay for who guesses at its address";
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  EXPECT_TRUE(has(audit, "\"role\":\"operator\",\"action\":\"start\",\"what\":\"s\",\"ok\":true")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"admin\",\"action\":\"add-node\",\"what\":\"127.0.0.1:1\",\"ok\":false")) << audit;
  EXPECT_TRUE(has(audit, "\"role\":\"viewer\",\"action\":\"refused\",\"what\":\"StartCapture\",\"ok\":false")) << audit;
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

/// What another user of this machine gets, whose calls bring no token.
TEST_F(Security, WithoutTokensOnlyTheSameUserIsTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  startMaster();
  auto node = agent("mine");
  ASSERT_TRUE(connected(1));
  const std::string out = node->out(), theirs = "127.0.0.1:" + std::to_string(freePort());
  const std::string mine =
      "127.0.0.1:" + out.substr(out.rfind(':') + 1, out.find_last_of("0123456789") - out.rfind(':'));
  auto context = [] {
    auto c = std::make_unique<grpc::ClientContext>();
    c->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    c->set_wait_for_ready(true);
    return c;
  };
  auto stub = [](const std::string& to) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return ClusterService::NewStub(grpc::CreateCustomChannel(to, grpc::InsecureChannelCredentials(), arguments));
  };
  InviteRequest invite;
  invite.set_master_host("127.0.0.1");
  invite.set_master_port(static_cast<uint32_t>(std::stoi(theirs.substr(10))));
  InviteResponse invited;
  StopCaptureResponse stopped;
  TraceEvent event;
  MasterMessage message;
  ASSERT_EQ(::seteuid(65534), 0);
  const grpc::Status taken = stub(mine)->Invite(context().get(), invite, &invited);
  const grpc::Status stop = stub(address())->StopCapture(context().get(), StopCaptureRequest(), &stopped);
  auto follower = stub(address());
  auto following = context(), linking = context();
  auto events = follower->StreamEvents(following.get(), StreamEventsRequest());
  while (events->Read(&event)) {
  }
  const grpc::Status followed = events->Finish();
  linking->AddMetadata("tracesmith-node", "mine");
  auto link = follower->Link(linking.get());
  while (link->Read(&message)) {
  }
  const grpc::Status linked = link->Finish();
  ASSERT_EQ(::seteuid(0), 0);
  for (const grpc::Status& s : {taken, stop, followed, linked}) {
    EXPECT_EQ(s.error_code(), grpc::StatusCode::UNAUTHENTICATED) << s.error_message();
    EXPECT_TRUE(has(s.error_message(), "you are user 65534")) << s.error_message();
  }
  EXPECT_FALSE(test::exists(dir_ / "a-mine/agent/master-address"));
  const std::string audit = test::readFile(dir_ / "m/master/audit.log");
  for (const char* call : {"StopCapture", "StreamEvents", "Link"})
    EXPECT_TRUE(has(audit, "\"action\":\"refused\",\"what\":\"" + std::string(call) + "\"")) << call << audit;
  EXPECT_TRUE(has(test::readFile(dir_ / "a-mine/agent/audit.log"), "\"what\":\"Invite\""));
  // The same user is.
  EXPECT_TRUE(stub(mine)->Invite(context().get(), invite, &invited).ok());
  EXPECT_TRUE(has(test::readFile(dir_ / "a-mine/agent/master-address"), theirs));
}

/// Somebody else took the master's port: what jobs of all users do is not told to him.
TEST_F(Security, WithoutATokenAnAgentDialsOnlyItsOwnUsersMaster) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  ASSERT_EQ(::seteuid(65534), 0);
  const int theirs = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::seteuid(0), 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port_);
  ASSERT_EQ(::bind(theirs, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  ASSERT_EQ(::listen(theirs, 8), 0);
  auto node = agent("mine");
  EXPECT_TRUE(eventually([&] { return has(node->err(), "belongs to user 65534"); })) << node->err();
  ::close(theirs);
  startMaster();  // as root
  EXPECT_TRUE(eventually([&] { return has(node->err(), "connected to the master"); })) << node->err();
}

/// A machine that was cloned while its agent ran: both have the same id, and do not take the node from each other.
TEST_F(Security, TwoMachinesWithOneAgentsIdentityAreToldApart) {
  // Whoever was heard of is there for two heartbeats.
  master_ = std::make_unique<Child>(
      std::vector<std::string>{TRACESMITH_BIN, "cluster", "master", "--port", std::to_string(port_), "--heartbeat",
                               "60000", "--http-port", http_port_, "--data-dir", dir_ / "m"},
      environment());
  ASSERT_TRUE(eventually([&] { return has(master_->out(), "listens"); })) << master_->err();
  auto stub = ClusterService::NewStub(grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
  auto registers = [&](const std::string& boot, const std::string& machine) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    RegisterNodeRequest request;
    RegisterNodeResponse response;
    request.set_node("alpha");
    request.set_hostname("first");
    request.set_agent_id("0123456789abcdef");
    request.set_boot_id(boot);
    request.set_machine_id(machine);
    const grpc::Status status = stub->RegisterNode(&context, request, &response);
    return status.ok() ? response.message() : status.error_message();
  };
  EXPECT_EQ(registers("boot-1", "machine-1"), "");
  EXPECT_EQ(registers("boot-2", "machine-1"), "") << "it was booted: there is no connection";
  grpc::ClientContext linking;
  linking.AddMetadata("tracesmith-node", "alpha");
  auto link = stub->Link(&linking);
  MasterMessage message;
  ASSERT_TRUE(link->Read(&message));
  for (const auto& [boot, machine] : {std::pair{"boot-3", "machine-1"}, {"boot-2", "machine-2"}})
    EXPECT_TRUE(has(registers(boot, machine), "already connected from first, with a copy of this agent's data folder"));
  EXPECT_EQ(registers("boot-2", "machine-1"), "") << "the same one comes again";
  linking.TryCancel();
}

TEST_F(Security, ATokenThatTravelsUnencryptedIsWarnedOf) {
  const std::string tokens = secret("tokens", "admin-token-0123456\n");
  startMaster({"--listen", "0.0.0.0", "--token-file", tokens});
  EXPECT_TRUE(has(master_->err(), "travel unencrypted between 0.0.0.0")) << master_->err();
  const Output o = test::tracesmith({"cluster", "status", "--master", "head.example.invalid", "--token-file", tokens});
  EXPECT_TRUE(has(o.err, "travel unencrypted between head.example.invalid")) << o.err;
  EXPECT_FALSE(has(command({"status"}, {"--token-file", tokens}).err, "unencrypted"));
}

/// Traces hold command lines and names: they are their owner's, whatever the umask.
TEST_F(Security, WhatIsStoredIsItsOwnersAlone) {
  const mode_t before = ::umask(0);
  http_port_ = "-1";
  startMaster();
  auto node = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(connected(1));
  const Output recorded = command({"record", "-o", dir_ / "r.sbt", "-d", "0.2"});
  ::umask(before);
  ASSERT_EQ(recorded.rc, 0) << recorded.err;
  const Output open = test::run({"find", dir_ / "m", dir_ / "a-alpha", dir_ / "r.sbt", "-perm", "/077"});
  EXPECT_EQ(open.out, "");
  EXPECT_TRUE(has(test::run({"find", dir_ / "m", "-type", "f", "-path", "*/nodes/alpha/*"}).out, "alpha/"));
}

}  // namespace
}  // namespace tracesmith::cluster
