// Jobs that were started without us: what NCCL's RAS tells of them. A stand-in answers as NCCL does; its ranks are real
// processes.
#include <arpa/inet.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "analysis/live/watcher.hpp"
#include "cluster/agent/ras_watch.hpp"
#include "cluster/cluster_fixture.hpp"
#include "hardware/process.hpp"

namespace tracesmith::cluster {
namespace {

using namespace analysis::live;
using process::RasAnswer;
using process::RasCommunicator;
using process::RasRank;

constexpr int64_t kS = 1'000'000'000;

/// Four ranks of one communicator, which only sleep; NCCL's counts are the test's.
class RasJob : public ClusterFixture {
 protected:
  RasJob() {
    for (int r = 0; r < 4; ++r) {
      ranks_.push_back(std::make_unique<Child>(std::vector<std::string>{"sleep", "600"},
                                               test::Environment{{"RANK", std::to_string(r)}}));
      counts_.push_back(100);
      // It has its environment once it is the program that was started.
      EXPECT_TRUE(test::eventually([&] { return hardware::processInfo("", ranks_.back()->pid()).rank == r; }));
    }
  }
  RasAnswer answer() const {
    RasAnswer a{"2.29.1", {{0xabc, 4, {}}}};
    for (int r = 0; r < 4; ++r) {
      const auto n = static_cast<size_t>(r);
      if (ranks_[n])
        a.communicators[0].ranks.push_back(
            {r, "127.0.0.1", ranks_[n]->pid(), false, {{"Broadcast", 1}, {"AllReduce", counts_[n]}}});
    }
    return a;
  }

  std::vector<std::unique_ptr<Child>> ranks_;
  std::vector<uint64_t> counts_;
};

class RasWatched : public RasJob {
 protected:
  /// NCCL is asked, and a report sent, every second.
  HangVerdict pass(int seconds, bool progress = false) {
    for (int i = 0; i < seconds; ++i) {
      now_ns_ += kS;
      if (progress)
        for (uint64_t& n : counts_) n += 7;
      known_.take(answer(), ::getuid(), now_ns_);
      NodeReport report;
      report.node = "a";
      report.processes = known_.report(probed_, now_ns_);
      watcher_.take(report, now_ns_);
      watcher_.look(now_ns_);
      last_ = report.processes;
    }
    return watcher_.verdict();
  }
  RasRanks known_{""};
  Watcher watcher_;
  std::vector<ProcessReport> probed_, last_;
  int64_t now_ns_ = 1000 * kS;
};

TEST_F(RasWatched, ARankThatLaunchesNothingHoldsUpTheJob) {
  EXPECT_EQ(pass(60, true).state, HangState::ok);
  ASSERT_EQ(last_.size(), 4u);
  EXPECT_EQ(last_[2].rank, 2);
  EXPECT_EQ(last_[2].nccl, "2.29.1");
  EXPECT_EQ(last_[2].counted_ns, 0);
  counts_[0] = counts_[1] = counts_[3] = 900;
  counts_[2] = 899;
  EXPECT_EQ(pass(9).state, HangState::ok);
  const HangVerdict v = pass(4);
  EXPECT_EQ(v.state, HangState::hang) << v.verdict;
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 2);
  EXPECT_NE(v.verdict.find("3 ranks wait in all_reduce 900 of (0000000000000abc, by NCCL's own count)"),
            std::string::npos)
      << v.verdict;
  ASSERT_EQ(v.communicators.size(), 1u);
  EXPECT_EQ(v.communicators[0].bytes, std::nullopt) << "nobody knows";
  counts_[2] = 900;
  EXPECT_EQ(pass(1).state, HangState::ok) << "it went on";
}

TEST_F(RasWatched, RanksThatLaunchedTheSameHangNot) {
  pass(5, true);
  EXPECT_EQ(pass(600).state, HangState::ok) << "an evaluation, or a checkpoint";
}

TEST_F(RasWatched, ARankThatWasKilledIsNamed) {
  pass(5, true);
  ranks_[1]->signal(SIGKILL);
  ranks_[1]->wait();
  counts_[0] = counts_[2] = counts_[3] = 900;
  const HangVerdict v = pass(14);
  EXPECT_EQ(v.state, HangState::hang) << v.verdict;
  ASSERT_EQ(v.culprits.size(), 1u) << v.verdict;
  EXPECT_EQ(v.culprits[0].rank, 1);
  EXPECT_EQ(v.culprits[0].reason, "its process has died");
}

TEST_F(RasWatched, AnOldCountSaysNothingOfLater) {
  pass(5, true);
  // The other ranks go on and are told of; this one is not.
  NodeReport old, fresh;
  known_.take(answer(), ::getuid(), now_ns_);
  old.node = "a";
  fresh.node = "b";
  old.processes = known_.report({}, now_ns_);
  fresh.processes = {old.processes.begin() + 1, old.processes.end()};
  old.processes.resize(1);
  for (int i = 0; i < 30; ++i) {
    now_ns_ += kS;
    old.processes[0].counted_ns = i * kS;
    for (ProcessReport& p : fresh.processes) {
      if (i < 10)
        for (InFlight& f : p.in_flight) f.seq += 7;
      for (InFlight& f : p.in_flight) f.age_ns = i < 10 ? 0 : (i - 10) * kS;
      for (OpProgress& o : p.comms[0].ops) o.entered = p.in_flight.back().seq;
    }
    watcher_.take(old, now_ns_);
    watcher_.take(fresh, now_ns_);
    watcher_.look(now_ns_);
    EXPECT_EQ(watcher_.verdict().state, HangState::ok) << i << ": " << watcher_.verdict().verdict;
  }
}

TEST_F(RasWatched, WhatTheProbeTellsIsNotToldTwice) {
  pass(2, true);
  ProcessReport& p = probed_.emplace_back();
  p.pid = ranks_[0]->pid();
  p.comms.push_back({});
  p.comms[0].comm = 0xabc;
  pass(1, true);
  EXPECT_TRUE(last_.empty()) << "its communicator is numbered in another way";
}

TEST_F(RasWatched, ProcessesOfOthersAreNotTakenFromAnAnswer) {
  known_.take(answer(), ::getuid() + 1, now_ns_);
  EXPECT_TRUE(known_.report({}, now_ns_).empty());
  RasAnswer elsewhere = answer();
  for (RasRank& r : elsewhere.communicators[0].ranks) r.host = "203.0.113.7";
  known_.take(elsewhere, ::getuid(), now_ns_);
  EXPECT_TRUE(known_.report({}, now_ns_).empty()) << "another node's agent tells of them";
}

/// Listens and answers as the thread in NCCL's processes does.
class StandIn {
 public:
  StandIn() {
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
  ~StandIn() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  uint16_t port() const { return port_; }
  void set(std::string json) {
    std::lock_guard lock(mutex_);
    json_ = std::move(json);
  }
  int asked() const { return asked_; }

 private:
  void serve() {
    for (;;) {
      const int c = ::accept(fd_, nullptr, nullptr);
      if (c < 0) return;
      std::string request;
      char buffer[1024];
      while (request.find("VERBOSE STATUS\n") == std::string::npos) {
        const ssize_t n = ::recv(c, buffer, sizeof buffer, 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      std::string reply = "SERVER PROTOCOL 2\nOK\nOK\n";
      {
        std::lock_guard lock(mutex_);
        reply += json_;
      }
      if (request.starts_with("CLIENT PROTOCOL 2\nTIMEOUT 5\nSET FORMAT json\n"))
        (void)!::send(c, reply.data(), reply.size(), MSG_NOSIGNAL);
      ::close(c);
      ++asked_;
    }
  }

  int fd_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> asked_ = 0;
  std::mutex mutex_;  // guards json_
  std::string json_;
  std::thread thread_;
};

class RasCluster : public RasJob {
 protected:
  void tell() {
    std::string json = R"({"nccl_version":"2.28.9","communicators":[{"hash":"0xabc","size":4,"ranks":[)";
    const RasAnswer now = answer();
    for (const RasRank& r : now.communicators[0].ranks)
      json += "{\"rank\":" + std::to_string(r.rank) + ",\"host\":\"127.0.0.1\",\"pid\":" + std::to_string(r.pid) +
              " \"collective_counts\":{\"AllReduce\":" + std::to_string(r.launched[1].second) + "}}\n";
    nccl_.set(json + "]}]}");
  }
  StandIn nccl_;
};

TEST_F(RasCluster, AHangOfAJobWithoutTheProbeIsNamed) {
  startMaster();
  tell();
  auto a = agent("alpha", {"--nccl-ras", std::to_string(nccl_.port())});
  ASSERT_TRUE(eventually([&] { return has(command({"hang", "--json"}).out, "\"state\":\"ok\""); }));
  counts_ = {900, 900, 900, 899};
  tell();
  std::string json;
  EXPECT_TRUE(eventually([&] {
    json = command({"hang", "--json"}).out;
    return has(json, "\"culprits\":[{\"rank\":3,\"node\":\"alpha\"");
  })) << json;
  EXPECT_TRUE(has(json, "\"entered\":[0,1,2],\"missing\":[3]") && has(json, "\"bytes\":null")) << json;
}

TEST_F(RasCluster, AnAgentEndsWhileNcclDoesNotAnswer) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(listener, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener, 8);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  startMaster();
  auto a = agent("alpha", {"--nccl-ras", std::to_string(ntohs(address.sin_port))});
  const int connection = ::accept(listener, nullptr, nullptr);  // it asks
  ASSERT_GE(connection, 0);
  a->signal(SIGTERM);
  EXPECT_EQ(a->wait().rc, 0);
  ::close(connection);
  ::close(listener);
}

TEST_F(RasCluster, AWrongPortIsRefused) {
  const Output o = test::run({TRACESMITH_BIN, "cluster", "agent", "--port", "0", "--nccl-ras", "often"});
  EXPECT_EQ(o.rc, 2);
  EXPECT_TRUE(has(o.err, "auto, off or a port")) << o.err;
}

}  // namespace
}  // namespace tracesmith::cluster
