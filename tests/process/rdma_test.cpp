// RDMA ports with their users, from a machine's files.
#include "process/rdma.hpp"

#include <signal.h>

#include <filesystem>

#include "support/child.hpp"
#include "support/training_ring.hpp"
#include "support/tree.hpp"

#include <gtest/gtest.h>

namespace tracesmith::test {
namespace {

using model::RdmaCounter;
using model::RdmaPort;

class Rdma : public testing::Test {
 protected:
  Rdma() { makeTree("host", dir_.path()); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / path).parent_path());
    writeFile(dir_ / path, text);
  }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / path).parent_path());
    std::filesystem::create_symlink(target, dir_ / path);
  }
  /// A process that has these files open.
  void process(const std::string& pid, const std::vector<std::string>& open, const std::string& environment = "") {
    write("proc/" + pid + "/cmdline", std::string("train\0--fast\0", 13));
    write("proc/" + pid + "/environ", environment);
    for (size_t i = 0; i < open.size(); ++i) link("proc/" + pid + "/fd/" + std::to_string(i), open[i]);
  }
  static const RdmaPort* find(const std::vector<RdmaPort>& ports, const std::string& name) {
    for (const RdmaPort& p : ports)
      if (p.name == name) return &p;
    return nullptr;
  }
  static const RdmaCounter* find(const RdmaPort& port, const std::string& name) {
    for (const RdmaCounter& c : port.counters)
      if (c.name == name) return &c;
    return nullptr;
  }
  hardware::Latest::State state() const {
    hardware::Places places;
    places.root = dir_.path();
    places.nvml = dir_ / "none.so";
    hardware::Latest::State s;
    s.inventory = hardware::discover(places);
    return s;
  }
  TempDir dir_;
};

TEST_F(Rdma, RatesAreBetweenTwoLooks) {
  process::RdmaWatch watch(dir_.path());
  std::vector<RdmaPort> ports = watch.look(state(), {});
  ASSERT_EQ(ports.size(), 2u);
  const RdmaPort* port = find(ports, "mlx5_0:1");
  ASSERT_TRUE(port);
  EXPECT_EQ(port->state, "up");
  EXPECT_EQ(port->link_layer, "InfiniBand");
  EXPECT_EQ(port->speed_gbps, 400);
  EXPECT_FALSE(port->rx_bytes_per_s) << "one reading is no rate";
  EXPECT_EQ(find(ports, "mlx5_1:1")->state, "down");
  const std::string counters = "sys/class/infiniband/mlx5_0/ports/1/";
  write(counters + "counters/port_rcv_data", "2000000\n");
  write(counters + "counters/symbol_error", "9\n");
  write(counters + "hw_counters/out_of_sequence", "4\n");  // its 32 bits wrapped
  ports = watch.look(state(), {});
  port = find(ports, "mlx5_0:1");
  ASSERT_TRUE(port && port->rx_bytes_per_s && port->tx_bytes_per_s);
  EXPECT_GT(*port->rx_bytes_per_s, 0);
  EXPECT_EQ(*port->tx_bytes_per_s, 0);
  const RdmaCounter *symbols = find(*port, "symbol_error"), *sequence = find(*port, "out_of_sequence");
  ASSERT_TRUE(symbols && sequence);
  EXPECT_EQ(symbols->total, 9);
  EXPECT_FALSE(symbols->congestion);
  // Both grew within the same time: by 4 and by 10.
  EXPECT_NEAR(*sequence->per_s / *symbols->per_s, 2.5, 1e-6);
}

TEST_F(Rdma, CongestionIsToldFromErrors) {
  for (const char* name : {"np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets", "rnr_nak_retry_err"})
    write("sys/class/infiniband/mlx5_1/ports/1/hw_counters/" + std::string(name), "7\n");
  process::RdmaWatch watch(dir_.path());
  const std::vector<RdmaPort> ports = watch.look(state(), {});
  const RdmaPort& port = *find(ports, "mlx5_1:1");
  EXPECT_TRUE(find(port, "np_cnp_sent")->congestion && find(port, "rp_cnp_handled")->congestion &&
              find(port, "np_ecn_marked_roce_packets")->congestion);
  EXPECT_FALSE(find(port, "rnr_nak_retry_err")->congestion);
}

TEST_F(Rdma, ProcessesThatHaveTheDeviceOpenAreItsUsers) {
  write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  write("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
  process("4100", {"/dev/null", "/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"}, std::string("RANK=6\0", 7));
  process("4101", {"/dev/infiniband/uverbs9", "/dev/infiniband/rdma_cm", "socket:[1]"});
  process("4102", {"/dev/infiniband/uverbs0"});
  capture::ProcessNow probed;
  probed.pid = 4102;
  probed.rank = 3;
  process::RdmaWatch watch(dir_.path());
  const std::vector<RdmaPort> ports = watch.look(state(), {probed});
  const RdmaPort& port = *find(ports, "mlx5_0:1");
  ASSERT_EQ(port.users.size(), 2u);
  EXPECT_EQ(port.users[0].pid, 4100);
  EXPECT_EQ(port.users[0].rank, 6);
  EXPECT_EQ(port.users[0].command, "train --fast");
  EXPECT_EQ(port.users[1].rank, 3);
  EXPECT_FALSE(port.users[1].guessed);
  EXPECT_TRUE(find(ports, "mlx5_1:1")->users.empty());
}

TEST_F(Rdma, WithoutPortsThereIsNothing) {
  std::filesystem::remove_all(dir_ / "sys/class/infiniband");
  process::RdmaWatch watch(dir_.path());
  EXPECT_TRUE(watch.look(state(), {}).empty());
}

class RdmaCommand : public Rdma {
 protected:
  Output rdma(std::vector<std::string> more) const {
    more.insert(more.begin(), {TRACESMITH_BIN, "rdma", "--root", dir_.path()});
    return runWith({{"TRACESMITH_DIR", dir_ / "rings"}, {"TRACESMITH_NVML", dir_ / "none.so"}}, more);
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
};

TEST_F(RdmaCommand, ATableOfPortsAndOneOfWhatWentWrong) {
  write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  process("4100", {"/dev/infiniband/uverbs0"}, std::string("RANK=6\0", 7));
  const Output o = rdma({});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, "mlx5_0:1  up     InfiniBand     400  0 B/s  0 B/s")) << o.out;
  EXPECT_TRUE(has(o.out, "mlx5_0:1  symbol_error     errors") && has(o.out, "  5           0\n")) << o.out;
  EXPECT_FALSE(has(o.out, "\x1b"));
  EXPECT_EQ(rdma({"mlx5_1"}).out.find("mlx5_0"), std::string::npos);
  EXPECT_FALSE(has(rdma({"-t", "4100"}).out, "mlx5_1"));
  const Output json = rdma({"--json", "mlx5_0:1"});
  EXPECT_EQ(run({"python3", "-c",
                 "import json,sys; p=json.load(sys.stdin)['nodes'][0]['ports']; assert len(p)==1; "
                 "assert p[0]['users'][0]['rank']==6 and p[0]['speed_gbps']==400 and p[0]['rx_bytes_per_s']==0, p"},
                json.out)
                .rc,
            0)
      << json.out;
}

TEST_F(RdmaCommand, NothingToShowIsOneLine) {
  Output o = rdma({"mlx5_7"});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: there is no RDMA port mlx5_7; `tracesmith rdma` lists all\n");
  o = rdma({"-t", "4100"});
  EXPECT_EQ(o.err, "tracesmith: no RDMA port is used by process 4100\n");
  std::filesystem::remove_all(dir_ / "sys/class/infiniband");
  o = rdma({});
  EXPECT_EQ(o.rc, 1);
  EXPECT_EQ(o.err, "tracesmith: no RDMA port on this machine (nothing in " + dir_.path() + "/sys/class/infiniband)\n");
  EXPECT_EQ(rdma({"--json"}).out, "{\"nodes\":[{\"node\":null,\"problem\":null,\"ports\":[]}]}\n");
}

}  // namespace
}  // namespace tracesmith::test
