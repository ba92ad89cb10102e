// TimeSync and ClockCorrelator as programs use them, against real servers.
#include "tracesmith/cluster/time_sync.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/clock.hpp"
#include "cluster/cluster_fixture.hpp"
#include "sync/exchange.hpp"
#include "sync/sources.hpp"
#include "tracesmith/cluster/clock_correlator.hpp"

namespace tracesmith::cluster {
namespace {

/// Answers as an NTP server whose clock is off by a known amount.
class NtpServer {
 public:
  explicit NtpServer(int64_t ahead_ns) : ahead_ns_(ahead_ns) {
    fd_ = ::socket(AF_INET, SOCK_DGRAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&a), size);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &size);
    port_ = ntohs(a.sin_port);
    thread_ = std::thread([this] { loop(); });
  }
  ~NtpServer() {
    stop_ = true;
    thread_.join();
    ::close(fd_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::atomic<bool> synchronised{true};

 private:
  void stamp(unsigned char* to) const {
    const int64_t now = unixClock() + ahead_ns_;
    const uint32_t seconds = htonl(static_cast<uint32_t>(now / 1'000'000'000 + 2'208'988'800ll));
    const uint32_t part =
        htonl(static_cast<uint32_t>((static_cast<unsigned __int128>(now % 1'000'000'000) << 32) / 1'000'000'000));
    std::memcpy(to, &seconds, 4);
    std::memcpy(to + 4, &part, 4);
  }
  void loop() {
    while (!stop_) {
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, 20) <= 0) continue;
      unsigned char in[48], out[48] = {};
      sockaddr_in from{};
      socklen_t size = sizeof from;
      if (::recvfrom(fd_, in, sizeof in, 0, reinterpret_cast<sockaddr*>(&from), &size) != 48) continue;
      stamp(out + 32);
      out[0] = static_cast<unsigned char>((synchronised ? 0 : 3) << 6 | 4 << 3 | 4);
      out[1] = 2;
      std::memcpy(out + 24, in + 40, 8);
      stamp(out + 40);
      ::sendto(fd_, out, sizeof out, 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
  int64_t ahead_ns_;
  int fd_;
  uint16_t port_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(TimeSync, TheSystemClockIsAsGoodAsTheKernelSays) {
  TimeSync sync;
  const SyncResult r = sync.synchronize();
  const sync::Comparison kernel = sync::askSystem();
  if (!kernel.bound_ns || *kernel.bound_ns > 1'000'000) {
    EXPECT_FALSE(r.success) << "nothing keeps this machine's clock right, and yet it succeeded";
    EXPECT_FALSE(sync.initialize());
    EXPECT_NE(r.message, "");
    EXPECT_EQ(sync.lastStatus().message(), r.message);
    return;
  }
  ASSERT_TRUE(r.success) << r.message;
  EXPECT_NEAR(static_cast<double>(static_cast<int64_t>(sync.toSynchronizedTime(r.sync_time)) - unixClock()), 0, 5e9);
  EXPECT_EQ(sync.toLocalTime(sync.toSynchronizedTime(12345)), 12345u);
  for (int i = 0; i < 3; ++i) sync.synchronize();
  EXPECT_GE(sync.getOffsetStdDev(), 0) << "and does not wait for itself";
}

TEST(TimeSync, NtpFindsAServersOffset) {
  NtpServer server(7'000'000'000);
  TimeSync sync(
      {.method = TimeSyncMethod::NTP, .ntp_server = server.address(), .max_acceptable_offset_ns = 1'000'000'000});
  const SyncResult r = sync.synchronize();
  ASSERT_TRUE(r.success) << r.message;
  const double truth = static_cast<double>(7'000'000'000 + unixMinusRaw());
  EXPECT_LE(std::abs(static_cast<double>(r.offset_ns) - truth), r.uncertainty_ns.value() + 1e6);
  EXPECT_GT(r.round_trip_ns, 0);
  server.synchronised = false;
  EXPECT_FALSE(sync.synchronize().success) << "a server that does not know the time is not believed";
}

TEST(TimeSync, WhatCannotBeMeasuredIsNoSuccess) {
  EXPECT_FALSE(TimeSync({.method = TimeSyncMethod::NTP, .ntp_server = "127.0.0.1:9"}).synchronize().success);
  const SyncResult ptp = TimeSync({.method = TimeSyncMethod::PTP, .ptp_interface = "no-such-if"}).synchronize();
  EXPECT_FALSE(ptp.success);
  EXPECT_FALSE(ptp.uncertainty_ns.has_value()) << "nothing was measured";
  EXPECT_FALSE(ptp.message.empty());
  ::setenv("TRACESMITH_CUDA", "/no/such/libcuda.so.1", 1);
  TimeSync cuda({.method = TimeSyncMethod::CUDA});
  EXPECT_FALSE(cuda.initialize());
  EXPECT_EQ(cuda.lastStatus().code(), Code::kNotFound);
  cuda.correlateGPUTimestamps(0);
  EXPECT_FALSE(cuda.lastStatus().ok());
  ::unsetenv("TRACESMITH_CUDA");
}

TEST(TimeSync, AGpusClockIsReadByAKernel) {
  // The stand-in's GPUs are ahead of the host by a second, by two.
  ::setenv("TRACESMITH_CUDA", TRACESMITH_BUILD_DIR "/lib/tests/libfake_cuda_driver.so", 1);
  TimeSync sync({.method = TimeSyncMethod::CUDA, .sync_interval_ms = 0, .max_acceptable_offset_ns = 1'000'000'000});
  EXPECT_EQ(sync.getGPUOffset(1), 0);
  ASSERT_TRUE(sync.initialize()) << sync.lastError();
  const SyncResult r = sync.synchronize();
  ASSERT_TRUE(r.success) << r.message;
  EXPECT_NEAR(static_cast<double>(r.offset_ns), 1e9, r.uncertainty_ns.value());
  EXPECT_GE(r.uncertainty_ns.value(), static_cast<double>(r.round_trip_ns) / 2);
  EXPECT_EQ(sync.getGPUOffset(0), r.offset_ns);
  EXPECT_EQ(sync.getCurrentOffset(), r.offset_ns);
  sync.correlateGPUTimestamps(1);
  ASSERT_TRUE(sync.lastStatus().ok()) << sync.lastError();
  EXPECT_NEAR(static_cast<double>(sync.getGPUOffset(1)), 2e9, 1e9);
  sync.correlateGPUTimestamps(7);
  EXPECT_NE(sync.lastError().find("CUDA sees 2"), std::string::npos) << sync.lastError();
  ::unsetenv("TRACESMITH_CUDA");
}

/// Real chronyds that leave the clock alone, each with a private configuration.
class Chrony : public ClusterFixture {
 protected:
  struct Daemon {
    uint16_t command_port = 0, ntp_port = 0;
    std::unique_ptr<Child> process;
  };
  void SetUp() override {
    if (!test::exists("/usr/sbin/chronyd")) GTEST_SKIP() << "chrony is not installed";
    if (::geteuid() != 0) GTEST_SKIP() << "chronyd wants to be started by root";
  }
  Daemon start(const std::string& name, const std::string& more) {
    Daemon d{freePort(SOCK_DGRAM), freePort(SOCK_DGRAM), {}};
    const std::string file = dir_ / name;
    // Readings on a busy machine look like a bad clock, which chronyd would not choose.
    test::writeFile(file, more + "\nmaxdistance 1000\nmaxjitter 1000\nport " + std::to_string(d.ntp_port) +
                              "\ncmdport " + std::to_string(d.command_port) +
                              "\nbindcmdaddress 127.0.0.1\nbindcmdaddress /\nbindaddress 127.0.0.1\n"
                              "allow 127.0.0.1\npidfile " +
                              file + ".pid\n");
    d.process =
        std::make_unique<Child>(std::vector<std::string>{"/usr/sbin/chronyd", "-x", "-d", "-u", "root", "-f", file});
    return d;
  }
  static SyncResult ask(const std::string& server) {
    // On a busy machine chronyd soon knows its clock to a second only.
    return TimeSync({.method = TimeSyncMethod::NTP, .ntp_server = server, .max_acceptable_offset_ns = int64_t{1} << 50})
        .synchronize();
  }
  static SyncResult ask(const Daemon& d) { return ask("chrony:" + std::to_string(d.command_port)); }
  /// As chronyc prints them, seconds.
  struct Told {
    double delay = 0, bound = 0;
  };
  static Told told(const Daemon& d) {
    const Output o =
        test::run({"/usr/bin/chronyc", "-c", "-h", "127.0.0.1", "-p", std::to_string(d.command_port), "tracking"});
    std::vector<std::string> words;
    std::istringstream in(o.out);
    for (std::string word; std::getline(in, word, ',');) words.push_back(word);
    if (words.size() < 12) return {};
    const double delay = std::stod(words[10]);
    return {delay, std::abs(std::stod(words[4])) + std::stod(words[11]) + delay / 2};
  }
};

TEST_F(Chrony, TellsWhatItKnowsAndServesTime) {
  Daemon server = start("server", "local stratum 3");
  Daemon d = start("client", "server 127.0.0.1 minpoll -6 maxpoll -6 port " + std::to_string(server.ntp_port));
  SyncResult first;
  EXPECT_TRUE(eventually([&] { return (first = ask(d)).success || !d.process->running(); }))
      << first.message << "\n"
      << d.process->err() << server.process->err();
  if (!d.process->running()) GTEST_SKIP() << "chronyd does not run here: " << d.process->err();
  const double truth = static_cast<double>(unixMinusRaw());
  // The same daemons are NTP servers.
  const SyncResult ntp = ask("127.0.0.1:" + std::to_string(server.ntp_port));
  ASSERT_TRUE(ntp.success) << ntp.message;
  EXPECT_LE(std::abs(static_cast<double>(ntp.offset_ns) - truth), ntp.uncertainty_ns.value() + 1e6);
  server.process.reset();  // from now on its delay stays the same
  ASSERT_TRUE(eventually([&] {
    const Told before = told(d);
    const SyncResult r = ask(d);
    const Told after = told(d);
    if (before.delay <= 0 || before.delay != after.delay) return false;
    EXPECT_TRUE(r.success) << r.message;
    EXPECT_NEAR(static_cast<double>(r.round_trip_ns), before.delay * 1e9, 2);
    const double slack =
        3 + std::abs(after.bound - before.bound) * 1e9;  // dispersion grows, what is left to correct shrinks
    EXPECT_GE(r.uncertainty_ns.value(), std::min(before.bound, after.bound) * 1e9 - slack);
    EXPECT_LE(r.uncertainty_ns.value(), std::max(before.bound, after.bound) * 1e9 + slack);
    EXPECT_NEAR(static_cast<double>(r.offset_ns), truth, 1e6);
    return true;
  }));
}

TEST_F(Chrony, WithoutASourceIsNotBelieved) {
  Daemon d = start("alone", "");
  SyncResult r;
  EXPECT_TRUE(eventually(
      [&] { return (r = ask(d)).message.find("not synchronised") != std::string::npos || !d.process->running(); }));
  if (!d.process->running()) GTEST_SKIP() << "chronyd does not run here: " << d.process->err();
  EXPECT_FALSE(r.success);
}

TEST(TimeSync, AChronydThatIsNotThereIsSaid) {
  const SyncResult r = TimeSync({.method = TimeSyncMethod::NTP, .ntp_server = "chrony:9"}).synchronize();
  EXPECT_FALSE(r.success);
  EXPECT_NE(r.message.find("does not answer"), std::string::npos) << r.message;
}

using TimeSyncWithMaster = ClusterFixture;

TEST_F(TimeSyncWithMaster, OurExchangeFindsTheMastersClock) {
  startMaster();
  TimeSync sync({.method = TimeSyncMethod::Custom,
                 .master = address(),
                 .sync_interval_ms = 0,
                 .max_acceptable_offset_ns = 1'000'000'000});
  ASSERT_TRUE(sync.initialize());
  // Master and test share the machine: the truth is in the master's file.
  int64_t anchor = 0;
  const std::string reference = test::readFile(dir_ / "m/master/reference");
  anchor = std::stoll(reference.substr(reference.find(' ')));
  for (int i = 0; i < 5; ++i) {
    const SyncResult r = sync.synchronizeWithNode(address());
    ASSERT_TRUE(r.success) << r.message;
    EXPECT_LE(std::abs(static_cast<double>(r.offset_ns - anchor)), r.uncertainty_ns.value());
  }
  sync.setManualOffset(5);
  EXPECT_EQ(sync.getCurrentOffset(), 5);
}

TEST_F(TimeSyncWithMaster, ANodeIsFoundByItsName) {
  startMaster();
  const std::unique_ptr<Child> node = agent("alpha", {"--sim", "1"});
  TimeSync sync({.master = address(), .sync_interval_ms = 0, .max_acceptable_offset_ns = 1'000'000'000});
  SyncResult r;
  ASSERT_TRUE(eventually([&] { return (r = sync.synchronizeWithNode("alpha")).success; })) << r.message;
  EXPECT_LE(std::abs(static_cast<double>(r.offset_ns)), r.uncertainty_ns.value())
      << "it shares this machine, and its raw clock";
  EXPECT_FALSE(sync.synchronizeWithNode("nobody").success);
  EXPECT_EQ(sync.lastStatus().code(), Code::kNotFound);
}

TEST_F(TimeSyncWithMaster, AnAgentMayAskAnNtpServerInstead) {
  NtpServer server(7'000'000'000);
  startMaster();
  const std::unique_ptr<Child> node =
      agent("alpha", {"--sim", "1", "--clock", "ntp", "--ntp-server", server.address()});
  ASSERT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "\"ntp\""); }));
  // Seven seconds ahead of what the master, on this machine too, would have said.
  ASSERT_TRUE(eventually([&] { return nodeField("bound_ns") >= 0; }));
  const double ahead = static_cast<double>(nodeField("offset_ns") - unixMinusRaw());
  EXPECT_NEAR(ahead, 7e9, 1e9) << command({"nodes", "--json"}).out;
}

TEST_F(TimeSyncWithMaster, AnAgentWhoseSourceIsNotSynchronisedKnowsNoClock) {
  NtpServer server(0);
  server.synchronised = false;
  startMaster();
  const std::unique_ptr<Child> node =
      agent("alpha", {"--sim", "1", "--clock", "ntp", "--ntp-server", server.address()});
  ASSERT_TRUE(connected(1));
  ASSERT_TRUE(eventually([&] { return has(command({"nodes", "--json"}).out, "not synchronised"); }));
  EXPECT_LT(nodeField("bound_ns"), 0) << command({"nodes", "--json"}).out;
}

TEST(ClockCorrelator, FindsOffsetAndDriftDespiteOutliers) {
  ClockCorrelator correlator;
  EXPECT_FALSE(correlator.calculateDriftModel("gpu").valid);
  const int64_t unix_ns = 1'790'000'000'000'000'000;
  for (int i = 0; i < 100; ++i) {
    const int64_t source = i * 1'000'000'000ll;
    int64_t reference = source + unix_ns + i * 50'000ll;  // 50 ppm
    if (i % 17 == 3) reference += 30'000'000;             // read late
    correlator.addCorrelationPoint("gpu", static_cast<Timestamp>(source), static_cast<Timestamp>(reference));
  }
  const ClockCorrelator::DriftModel model = correlator.calculateDriftModel("gpu");
  ASSERT_TRUE(model.valid);
  EXPECT_NEAR(model.drift_rate, 50'000, 1);
  EXPECT_GT(model.r_squared, 0.99);
  std::vector<TraceEvent> events(1);
  events[0].timestamp = 50'000'000'000;
  events[0].duration = 1'000'000;
  correlator.correctTimestamps("gpu", events);
  EXPECT_NEAR(
      static_cast<double>(static_cast<int64_t>(events[0].timestamp) - (unix_ns + 50'000'000'000ll + 2'500'000ll)), 0,
      2);
  EXPECT_EQ(events[0].duration, 1'000'050u);
  EXPECT_NEAR(static_cast<double>(correlator.calculateOffset("gpu") - unix_ns - 99 * 50'000ll), 0, 300);
}

}  // namespace
}  // namespace tracesmith::cluster
