// Guests that mean harm, or do not know better: the cluster goes on.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <random>

#include "cluster/cluster_fixture.hpp"
#include "tracesmith_cluster.grpc.pb.h"

namespace tracesmith::cluster {
namespace {

class Hostile : public ClusterFixture {
 protected:
  void SetUp() override {
    startMaster();
    agent_ = agent("alpha", {"--sim", "1"});
    ASSERT_TRUE(connected(1));
  }
  void TearDown() override {
    for (int fd : sockets_) ::close(fd);
  }
  int dial(uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      ::close(fd);
      return -1;
    }
    return fd;
  }
  void goesOn() {
    EXPECT_TRUE(master_->running());
    EXPECT_TRUE(agent_->running());
    ASSERT_TRUE(connected(1));
    const Output o = command({"record", "--force", "-o", dir_ / "r.sbt", "-d", "0.2"});
    EXPECT_EQ(o.rc, 0) << o.err;
    EXPECT_TRUE(has(o.out, "complete")) << o.out << o.err;
  }
  std::unique_ptr<ClusterService::Stub> stub() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    return ClusterService::NewStub(grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments));
  }
  uint16_t agentPort() const {
    const std::string out = agent_->out();
    return static_cast<uint16_t>(std::stoi(out.substr(out.rfind(':') + 1)));
  }

  std::unique_ptr<Child> agent_;
  std::vector<int> sockets_;
};

TEST_F(Hostile, GarbageOnEveryPortDoesNoHarm) {
  std::mt19937 random(7);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (uint16_t port : {port_, agentPort()})
    for (int i = 0; i < 60; ++i) {
      std::string bytes = i % 3 == 0 ? preface : i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n" : std::string("\x16\x03\x01", 3);
      const size_t size = random() % 4000;
      for (size_t k = 0; k < size; ++k) bytes += static_cast<char>(random());
      const int fd = dial(port);
      ASSERT_GE(fd, 0);
      (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      sockets_.push_back(fd);
    }
  // Datagrams to the clock's port.
  const int udp = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port_);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (size_t size = 0; size < 200; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    (void)!::sendto(udp, bytes.data(), size, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  ::close(udp);
  goesOn();
}

TEST_F(Hostile, APortScannerIsNotNoticed) {
  for (int i = 0; i < 500; ++i) {
    const int fd = dial(i % 2 ? port_ : agentPort());
    ASSERT_GE(fd, 0);
    ::close(fd);
  }
  goesOn();
  EXPECT_EQ(master_->err().find("andshake"), std::string::npos) << master_->err();
}

/// TRACESMITH_IDLE=10000 is the long form: as many as the limit on open files lets this process have.
TEST_F(Hostile, IdleConnectionsTakeNothingFromOthers) {
  const char* set = std::getenv("TRACESMITH_IDLE");
  const int wanted = set ? std::atoi(set) : 500;
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const int most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1u << 20)) - 200;
  int open = 0;
  for (; open < std::min(wanted, most); ++open) {
    const int fd = dial(port_);
    if (fd < 0) break;
    sockets_.push_back(fd);
  }
  EXPECT_EQ(open, std::min(wanted, most));
  goesOn();
  for (int fd : sockets_) ::close(fd);
  sockets_.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(Hostile, MessagesThatAreTooLargeAreRefused) {
  auto client = stub();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  StartCaptureRequest request;
  request.set_name(std::string(80 << 20, 'x'));
  StartCaptureResponse response;
  const grpc::Status status = client->StartCapture(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  grpc::ClientContext second;
  second.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  second.AddMetadata("authorization", "Bearer " + std::string(100000, 'x'));
  EXPECT_FALSE(client->StartCapture(&second, StartCaptureRequest(), &response).ok());
  goesOn();
}

TEST_F(Hostile, TooManyStreamsWaitTheirTurn) {
  auto client = stub();
  struct Open {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<AgentMessage, MasterMessage>> stream;
  };
  // Links of nodes that do not exist, of the one that does, and of names that are none; nothing is ever read.
  std::vector<std::unique_ptr<Open>> open;
  const char* const names[] = {"nobody", "../../etc", ""};
  for (int i = 0; i < 1000; ++i) {
    auto& o = open.emplace_back(std::make_unique<Open>());
    o->context.AddMetadata("tracesmith-node", names[i % 3]);
    o->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    o->stream = client->Link(&o->context);
  }
  goesOn();
  for (auto& o : open) o->context.TryCancel();
  open.clear();
  goesOn();
}

TEST_F(Hostile, ALinkThatSendsNonsenseEndsAndTheNodeComesBack) {
  auto client = stub();
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.AddMetadata("tracesmith-node", "alpha");  // takes the place of the real one
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    auto stream = client->Link(&context);
    AgentMessage message;
    message.mutable_chunk()->set_epoch("0123456789abcdef");
    message.mutable_chunk()->set_data("no blocks at all");
    stream->Write(message);
    MasterMessage answer;
    while (stream->Read(&answer)) {
    }
    EXPECT_FALSE(stream->Finish().ok());
  }
  goesOn();
}

}  // namespace
}  // namespace tracesmith::cluster
