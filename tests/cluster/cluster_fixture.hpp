// Real agents and a real master, as users start them, on ports of their own.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/child.hpp"
#include "support/process.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cluster {

using test::Child;
using test::eventually;
using test::Output;

class ClusterFixture : public ::testing::Test {
 protected:
  ClusterFixture() {
    port_ = freePort();
    ::mkdir(rings().c_str(), 0700);
  }

  /// A port nobody listens on now.
  static uint16_t freePort(int type = SOCK_STREAM) {
    int fd = ::socket(AF_INET, type, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(fd);
    return ntohs(address.sin_port);
  }

  std::string rings() const { return dir_ / "rings"; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  test::Environment environment() const {
    test::Environment all = {{"TRACESMITH_DIR", rings()}};
    all.insert(all.end(), more_environment_.begin(), more_environment_.end());
    return all;
  }

  void startMaster(std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {TRACESMITH_BIN,
                                     "cluster",
                                     "master",
                                     "--port",
                                     std::to_string(port_),
                                     "--heartbeat",
                                     "100",
                                     "--http-port",
                                     http_port_,
                                     "--data-dir",
                                     master_data_.empty() ? dir_ / "m" : master_data_};
    argv.insert(argv.end(), more.begin(), more.end());
    master_ = std::make_unique<Child>(argv, environment());
    ASSERT_TRUE(eventually([&] { return master_->out().find("listens") != std::string::npos || !master_->running(); }));
    ASSERT_TRUE(master_->running()) << master_->err();
  }
  std::unique_ptr<Child> agent(const std::string& node, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {TRACESMITH_BIN,
                                     "cluster",
                                     "agent",
                                     "--port",
                                     "0",
                                     "--master",
                                     dial_.empty() ? address() : dial_,
                                     "--node-id",
                                     node,
                                     "--data-dir",
                                     agent_data_.empty() ? dir_ / ("a-" + node) : agent_data_};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.insert(argv.begin(), wrapper_.begin(), wrapper_.end());
    auto child = std::make_unique<Child>(argv, environment());
    EXPECT_TRUE(eventually([&] { return child->out().find("listens") != std::string::npos || !child->running(); }));
    EXPECT_TRUE(child->running()) << child->err();
    return child;
  }
  /// `tracesmith cluster …` against this master.
  Output command(std::vector<std::string> argv, const std::vector<std::string>& more = {}) const {
    argv.insert(argv.begin(), {TRACESMITH_BIN, "cluster"});
    argv.insert(argv.end(), {"--master", address()});
    argv.insert(argv.end(), more.begin(), more.end());
    return test::runWith(environment(), argv);
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
  bool connected(size_t nodes) const {
    return eventually([&] {
      const std::string text = command({"nodes", "--json"}).out;
      size_t n = 0;
      for (size_t at = text.find("\"connected\":true"); at != std::string::npos;
           at = text.find("\"connected\":true", at + 1))
        ++n;
      return n == nodes;
    });
  }
  std::unique_ptr<Child> job(uint64_t count, uint64_t per_second, uint64_t ring_records = 1 << 20) const {
    auto child = std::make_unique<Child>(
        std::vector<std::string>{std::string(TRACESMITH_BUILD_DIR) + "/bin/tests/numbered_job", rings(),
                                 std::to_string(count), std::to_string(per_second), std::to_string(ring_records)});
    EXPECT_TRUE(eventually([&] { return has(child->out(), "ready"); }));
    return child;
  }
  /// Hands over the numbers a numbered_job has in a trace: there may be millions.
  template <typename Visit>
  static void eachNumber(const std::string& path, Visit visit) {
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(path);
    ASSERT_TRUE(reader) << reader.status().message();
    trace::Scan scan(**reader, trace::tableOf<trace::CounterRow>(), {}, {trace::counters::value});
    while (scan.next())
      for (uint32_t r : scan.rows()) visit(static_cast<int64_t>(scan.column(trace::counters::value).realAt(r)));
    EXPECT_EQ((*reader)->damageSummary(), "");
  }
  /// How often each number of a numbered_job is in a trace.
  static std::map<int64_t, int> numbers(const std::string& trace) {
    std::map<int64_t, int> found;
    eachNumber(trace, [&](int64_t k) { ++found[k]; });
    return found;
  }
  /// 0…count−1, each once.
  static void expectAllOnce(const std::string& trace, int64_t count) {
    std::vector<uint8_t> seen(static_cast<size_t>(count));
    int64_t doubled = 0, others = 0;
    eachNumber(trace, [&](int64_t k) {
      if (k < 0 || k >= count)
        ++others;
      else if (seen[static_cast<size_t>(k)]++ > 0)
        ++doubled;
    });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0) << "missing";
    EXPECT_EQ(doubled, 0);
    EXPECT_EQ(others, 0);
  }
  /// A number of the only node, as `nodes --json` has it; −1 where it has none.
  int64_t nodeField(const std::string& name) const {
    const std::string text = command({"nodes", "--json"}).out, key = "\"" + name + "\":";
    const size_t at = text.find(key);
    if (at == std::string::npos) return -1;
    const size_t value = text.find_first_not_of('"', at + key.size());  // large numbers are texts
    return text.compare(value, 4, "null") == 0 ? -1 : std::stoll(text.substr(value));
  }

  test::TempDir dir_;
  uint16_t port_;
  std::string http_port_ = "0";           // -1: any
  std::string master_data_, agent_data_;  // instead of folders in dir_
  std::string dial_;                      // what agents are told instead of address()
  std::vector<std::string> wrapper_;      // a command that starts agents
  test::Environment more_environment_;
  std::unique_ptr<Child> master_;
};

}  // namespace tracesmith::cluster
