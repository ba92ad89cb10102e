// The live side of a cluster with real agents and a real master: what nodes report every second, a hang that is named,
// told and kept.
#include <arpa/inet.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "cluster/cluster_fixture.hpp"
#include "cluster/rpc/client.hpp"

namespace tracesmith::cluster {
namespace {

/// A web server that keeps what is posted to it.
class Hook {
 public:
  Hook() {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(fd_, 8);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Hook() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/alerts"; }
  std::string posted() {
    std::lock_guard lock(mutex_);
    return posted_;
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept(fd_, nullptr, nullptr);
      if (connection < 0) return;
      std::string request;
      char buffer[4096];
      while (!whole(request)) {
        const ssize_t n = ::recv(connection, buffer, sizeof buffer, 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      {
        std::lock_guard lock(mutex_);
        posted_ += request + "\n";
      }
      const std::string answer = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
      (void)!::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
      ::close(connection);
    }
  }
  static bool whole(const std::string& request) {
    const size_t head = request.find("\r\n\r\n"), length = request.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return false;
    return request.size() >= head + 4 + std::stoul(request.substr(length + 16));
  }

  int fd_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;  // guards posted_
  std::string posted_;
  std::thread thread_;
};

class Live : public ClusterFixture {
 protected:
  /// Two nodes of one simulated job of four ranks.
  void startJob(const std::vector<std::string>& more = {}) {
    const std::string start = std::to_string(::time(nullptr));
    for (int n = 0; n < 2; ++n) {
      std::vector<std::string> argv = {
          "--sim", "2", "--sim-ranks", "4", "--sim-first-rank", std::to_string(2 * n), "--sim-start", start};
      argv.insert(argv.end(), more.begin(), more.end());
      agents_.push_back(agent(n ? "beta" : "alpha", argv));
    }
  }
  std::vector<std::unique_ptr<Child>> agents_;
};

TEST_F(Live, EveryNodeReportsItsGpusAndItsRanks) {
  startMaster();
  startJob();
  ClientOptions options;
  options.master = address();
  auto client = connectClient(options);
  ASSERT_TRUE(client);
  LiveStatus live;
  // Rare metrics come with the first readings of each rate, rates with the second.
  ASSERT_TRUE(eventually([&] {
    Result<LiveStatus> now = (*client)->live();
    if (!now || now->nodes.size() != 2) return false;
    live = *now;
    for (const LiveNode& node : live.nodes) {
      if (node.report.processes.size() != 2 || node.report.gpus.size() != 2) return false;
      for (const auto& p : node.report.processes)
        if (!p.step || p.steps.empty() || p.comms.size() < 2 || p.activity == 0) return false;
      for (const auto& m : node.report.gpus[0].metrics)
        if ((m.name == "gpu_power_watts" || m.name == "gpu_memory_used_percent" ||
             m.name == "gpu_nvlink_tx_bytes_per_second") &&
            !m.value)
          return false;
    }
    return true;
  }));
  EXPECT_EQ(live.nodes[0].report.node, "alpha");
  const auto& rank = live.nodes[1].report.processes[0];
  EXPECT_EQ(rank.rank, 2);
  EXPECT_EQ(rank.world_size, 4);
  EXPECT_TRUE(rank.simulated);
  for (const auto& c : rank.comms) EXPECT_FALSE(c.ops.empty());
}

TEST_F(Live, AHangIsNamedToldAndKept) {
  Hook hook;
  startMaster({"--webhook", hook.url(), "--on-alert", "tee " + (dir_ / "told"), "--freeze", "60"});
  startJob({"--fault", "hang=3:40"});
  ASSERT_TRUE(eventually([&] { return has(command({"hang", "--json"}).out, "\"state\":\"hang\""); }));
  std::string json;
  EXPECT_TRUE(eventually([&] {
    json = command({"hang", "--json"}).out;
    return has(json, "\"culprits\":[{\"rank\":3,\"node\":\"beta\"");
  })) << json;
  EXPECT_TRUE(has(json, "\"entered\":[0,1,2],\"missing\":[3]")) << json;
  EXPECT_TRUE(has(command({"hang"}).out, "rank 3 on beta holds up the job"));
  EXPECT_TRUE(eventually([&] { return has(hook.posted(), "\"kind\":\"hang\""); }));
  EXPECT_TRUE(has(hook.posted(), "POST /alerts HTTP/1.1"));
  EXPECT_TRUE(eventually([&] { return has(test::readFile(dir_ / "told"), "rank 3 on beta"); }));
  // The last seconds of all ranks are a session, complete by itself.
  ASSERT_TRUE(eventually([&] {
    const std::string sessions = command({"sessions", "--json"}).out;
    return has(sessions, "\"name\":\"hang-") && has(sessions, "\"state\":\"complete\"");
  }));
  const std::string sessions = command({"sessions", "--json"}).out;
  const std::string name = sessions.substr(sessions.find("hang-"), 20);
  const Output o = command({"recover", "--name", name, "--export", dir_ / "hang.sbt"});
  ASSERT_EQ(o.rc, 0) << o.err;
  std::set<int64_t> ranks;
  int64_t last_step = -1;
  for (const test::Row& row : test::rows(dir_ / "hang.sbt", "steps")) {
    ranks.insert(row.i("rank"));
    last_step = std::max(last_step, row.i("step"));
  }
  EXPECT_EQ(ranks, (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_GE(last_step, 39);
  // Who looks at it later is told, too.
  const Output verdict = test::tracesmith({"analyze", dir_ / "hang.sbt"});
  EXPECT_TRUE(verdict.out.starts_with("the job hangs: rank 3 on beta never arrived at ")) << verdict.out << verdict.err;
  EXPECT_TRUE(has(test::tracesmith({"info", dir_ / "hang.sbt"}).out, "with operations in flight"));
  for (const char* action : {"alert", "freeze", "webhook", "on-alert"})
    EXPECT_TRUE(eventually([&] {
      return has(test::readFile(dir_ / "m/master/audit.log"), "\"action\":\"" + std::string(action) + "\"");
    })) << action;
}

TEST_F(Live, ANodeThatDiesIsToldOf) {
  startMaster({"--node-timeout", "1500"});
  auto alpha = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"connected\":true"); }));
  alpha->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return has(command({"hang", "--json"}).out, "\"kind\":\"silent_node\""); }));
}

TEST_F(Live, AWrongWebhookIsRefused) {
  const Output o = test::run({TRACESMITH_BIN, "cluster", "master", "--port", "0", "--data-dir", dir_ / "x", "--webhook",
                              "https://example.org/"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_TRUE(has(o.err, "plain http")) << o.err;
}

}  // namespace
}  // namespace tracesmith::cluster
