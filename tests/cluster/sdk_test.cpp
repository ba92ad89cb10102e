// The cluster from inside programs: NodeAggregator, ClusterMaster and its timeline, on simulated GPUs.
#include <cstdlib>
#include <numeric>
#include <set>

#include "cluster/cluster_fixture.hpp"
#include "hardware/capability.hpp"
#include "support/tree.hpp"
#include "tracesmith/cluster/cluster_master.hpp"

namespace tracesmith::cluster {
namespace {

class Sdk : public ClusterFixture {
 protected:
  Sdk() { ::setenv("TRACESMITH_DIR", rings().c_str(), 1); }
  NodeAggregatorConfig node(const std::string& name, int gpus) {
    NodeAggregatorConfig c;
    c.node_id = name;
    c.port = 0;
    c.data_dir = dir_ / name;
    c.simulated_gpus = gpus;
    return c;
  }
};

TEST_F(Sdk, ANodeGivesWhatItCaptured) {
  NodeAggregatorConfig config = node("alone", 0);
  config.multi_gpu_config.platform = PlatformType::Sim;
  config.multi_gpu_config.profiler.sim.gpus = 2;
  NodeAggregator aggregator(config);
  EXPECT_FALSE(aggregator.startCapture()) << "not initialized";
  EXPECT_EQ(aggregator.lastStatus().code(), Code::kInvalid);
  ASSERT_TRUE(aggregator.initialize()) << aggregator.lastError();
  EXPECT_TRUE(aggregator.getNCCLOperations().empty());
  EXPECT_FALSE(aggregator.lastStatus().ok()) << "nothing was captured";
  EXPECT_EQ(aggregator.getStatistics().nccl_operations, 0u);
  ASSERT_TRUE(aggregator.startCapture()) << aggregator.lastError();
  ASSERT_TRUE(eventually([&] { return aggregator.getEventCount() > 2000; }));
  ASSERT_TRUE(aggregator.stopCapture()) << aggregator.lastError();

  const std::vector<NCCLOperation> operations = aggregator.getNCCLOperations();
  ASSERT_TRUE(aggregator.lastStatus().ok()) << aggregator.lastError();
  ASSERT_FALSE(operations.empty());
  uint64_t bytes = 0;
  for (const NCCLOperation& o : operations) {
    bytes += o.data_size;
    EXPECT_EQ(o.world_size, 2u);
    EXPECT_LT(o.rank, 2u);
    EXPECT_NE(o.op_type, NCCLOpType::Unknown);
    EXPECT_TRUE(o.in_flight || o.end_time == o.start_time + o.duration_ns);
    EXPECT_TRUE(o.simulated);
  }
  const NodeAggregator::Statistics s = aggregator.getStatistics();
  EXPECT_FALSE(s.clock_error_bound_ns.has_value()) << "there is no master to compare clocks with";
  EXPECT_EQ(s.nccl_operations, operations.size());
  EXPECT_EQ(s.nccl_bytes, bytes);
  EXPECT_GT(s.events_per_gpu[0], 0u);
  EXPECT_GT(s.events_per_gpu[1], 0u);
  EXPECT_EQ(s.events_per_gpu[2], 0u);
  EXPECT_GT(s.end_time, s.start_time);
  EXPECT_DOUBLE_EQ(s.capture_duration_sec, static_cast<double>(s.end_time - s.start_time) / 1e9);

  const std::vector<uint8_t> serialized = aggregator.serializeEvents();
  test::writeFile(dir_ / "sent.sbt", std::string(serialized.begin(), serialized.end()));
  const TraceRecord record = aggregator.exportTrace();
  ASSERT_NE(record.path, "") << aggregator.lastError();
  EXPECT_EQ(test::rows(dir_ / "sent.sbt", "events").size(), record.event_count);
  EXPECT_EQ(test::rows(dir_ / "sent.sbt", "collectives").size(), operations.size());
  aggregator.finalize();
  EXPECT_TRUE(test::exists(record.path)) << "it is the caller's";
}

TEST_F(Sdk, ANodeFindsOnlyTheCommunicatorsAskedFor) {
  NodeAggregatorConfig config = node("alone", 2);
  config.nccl_config.comm_filter = {12345};
  NodeAggregator aggregator(config);
  ASSERT_TRUE(aggregator.initialize() && aggregator.startCapture()) << aggregator.lastError();
  ASSERT_TRUE(eventually([&] { return aggregator.getEventCount() > 1000; }));
  ASSERT_TRUE(aggregator.stopCapture());
  EXPECT_TRUE(aggregator.getNCCLOperations().empty());
  EXPECT_TRUE(aggregator.lastStatus().ok());
  EXPECT_GT(aggregator.getStatistics().nccl_operations, 0u);
}

TEST_F(Sdk, AMasterGivesTimelineTotalsAndTheNodesAskedFor) {
  ClusterMasterConfig config;
  config.listen_port = 0;
  config.heartbeat_interval_ms = 100;
  config.data_dir = dir_ / "m";
  ClusterMaster master(config);
  ASSERT_TRUE(master.start()) << master.lastError();
  NodeAggregatorConfig one = node("one", 1), two = node("two", 2);
  one.master = two.master = "127.0.0.1:" + std::to_string(master.port());
  NodeAggregator a(one), b(two);
  a.synchronizeTime();
  EXPECT_FALSE(a.lastStatus().ok()) << "not initialized";
  ASSERT_TRUE(a.initialize()) << a.lastError();
  ASSERT_TRUE(b.initialize()) << b.lastError();
  ASSERT_TRUE(eventually([&] { return master.getConnectedNodes().size() == 2; }));

  master.synchronizeClusterTime();
  EXPECT_TRUE(master.lastStatus().ok()) << master.lastError();
  EXPECT_EQ(master.getNodeTimeOffsets().size(), 2u);
  a.synchronizeTime();
  EXPECT_TRUE(a.lastStatus().ok()) << a.lastError();
  for (const NodeConnection& n : master.getConnectedNodes()) {
    EXPECT_EQ(n.address, "127.0.0.1");
    EXPECT_NE(n.port, 0);
    EXPECT_GT(n.last_heartbeat, 0u);
    EXPECT_GE(n.time_error_bound.value_or(-1), 0);
  }

  ASSERT_TRUE(master.startClusterCapture()) << master.lastError();
  ASSERT_TRUE(eventually([&] { return master.getClusterStatistics().total_events > 2000; }));
  EXPECT_EQ(master.getClusterStatistics().total_nccl_ops, 0u) << "not known while it records";
  ASSERT_TRUE(master.stopClusterCapture()) << master.lastError();

  ClusterMaster::ClusterTimeline timeline = master.buildClusterTimeline();
  ASSERT_TRUE(timeline.lastStatus().ok()) << timeline.lastError();
  ASSERT_FALSE(timeline.events.empty());
  EXPECT_EQ(timeline.events_left_out, 0u);
  EXPECT_TRUE(std::ranges::is_sorted(timeline.events, {}, &TraceEvent::timestamp));
  std::set<std::string> nodes;
  for (const TraceEvent& e : timeline.events) nodes.insert(e.metadata.at("node"));
  EXPECT_EQ(nodes, (std::set<std::string>{"one", "two"}));
  EXPECT_EQ(timeline.cluster_topology.gpu_count, 3u);
  ASSERT_FALSE(timeline.nccl_ops.empty());
  for (const NCCLOperation& o : timeline.nccl_ops)
    if (!o.in_flight) {
      EXPECT_GE(o.start_time, timeline.start_time);
      EXPECT_LE(o.end_time, timeline.end_time);
    }
  const size_t all = timeline.events.size();
  ASSERT_TRUE(timeline.load(10));
  EXPECT_EQ(timeline.events.size(), 20u) << "ten of each node";
  EXPECT_EQ(timeline.events_left_out, all - 20);

  const ClusterMaster::ClusterStatistics s = master.getClusterStatistics();
  EXPECT_EQ(s.total_nccl_ops, timeline.nccl_ops.size());
  EXPECT_EQ(s.total_nccl_ops, s.per_node_stats.at("one").nccl_operations + s.per_node_stats.at("two").nccl_operations);
  EXPECT_GT(s.total_nccl_bytes, 0u);
  EXPECT_GT(s.per_node_stats.at("two").events_per_gpu[1], 0u);
  EXPECT_GT(s.per_node_stats.at("two").capture_duration_sec, 0);

  const TraceRecord record = master.collectTracesFromNodes({"two"});
  ASSERT_NE(record.path, "") << master.lastError();
  EXPECT_EQ(record.nodes, std::vector<std::string>{"two"});
  EXPECT_TRUE(record.complete);
  for (const test::Row& row : test::rows(record.path, "events")) ASSERT_EQ(row.s("node"), "two");
  EXPECT_EQ(master.collectTracesFromNodes({"nobody"}).path, "");
  EXPECT_NE(master.lastError().find("nobody"), std::string::npos) << master.lastError();
}

TEST_F(Sdk, ANodeTellsItsHardwareWhenItRegisters) {
  ::setenv("TRACESMITH_NVML", test::fakeNvml().c_str(), 1);
  ::setenv("TRACESMITH_FAKE_NVML", test::nvmlDescription("h100-nvswitch").c_str(), 1);
  ::setenv("TRACESMITH_ROOT", dir_.path().c_str(), 1);
  ::setenv("TRACESMITH_DATA", (dir_ / "data").c_str(), 1);
  hardware::Capability measured;
  measured.set({"link_gbps", "GB/s", "0-1", 365.25, 360, 370, 5});
  ASSERT_TRUE(hardware::saveCapability(hardware::capabilityPath("alpha"), measured).ok());
  ClusterMasterConfig config;
  config.listen_port = 0;
  config.heartbeat_interval_ms = 100;
  config.data_dir = dir_ / "m";
  ClusterMaster master(config);
  ASSERT_TRUE(master.start()) << master.lastError();
  NodeAggregatorConfig alpha = node("alpha", 0);
  alpha.master = "127.0.0.1:" + std::to_string(master.port());
  NodeAggregator aggregator(alpha);
  ASSERT_TRUE(aggregator.initialize()) << aggregator.lastError();
  ASSERT_TRUE(eventually([&] { return aggregator.getNodeInfo().gpu_count == 8; }));
  std::vector<NodeConnection> nodes;
  ASSERT_TRUE(eventually([&] {
    nodes = master.getConnectedNodes();
    return nodes.size() == 1 && nodes[0].info.gpu_count == 8;
  }));
  for (const NodeInfo& info : {aggregator.getNodeInfo(), nodes[0].info}) {
    EXPECT_EQ(info.gpus[0].vendor, "nvidia");
    EXPECT_EQ(info.gpus[0].compute_major, 9);
    EXPECT_NE(info.gpus[0].pci_bus_id, "");
    EXPECT_FALSE(info.gpus[0].simulated);
    EXPECT_TRUE(info.topology.has_nvswitch);
    ASSERT_EQ(info.topology.links.size(), 28u);
    EXPECT_EQ(info.topology.links[0].measured_bandwidth, 365.25);
    EXPECT_EQ(info.topology.link_matrix.at({7, 0}), GPULinkType::NVSwitch);
  }
  const Output told = test::run({TRACESMITH_BIN, "cluster", "nodes", "--json", "--master", alpha.master});
  EXPECT_TRUE(has(told.out, "\"measured_gbps\":365.25")) << told.out;
  EXPECT_TRUE(has(told.out, "\"uuid\":\"GPU-")) << told.out;
  EXPECT_TRUE(has(told.out, "\"figures\":[{")) << told.out;
}

TEST_F(Sdk, AMasterWhoseClockIsOffFromItsSourceDoesNotStart) {
  ClusterMasterConfig config;
  config.listen_port = 0;
  config.data_dir = dir_ / "m";
  config.time_sync_config.method = TimeSyncMethod::NTP;
  config.time_sync_config.ntp_server = "127.0.0.1:9";
  ClusterMaster master(config);
  EXPECT_FALSE(master.start());
  EXPECT_NE(master.lastError(), "");
  EXPECT_FALSE(master.isRunning());
}

TEST_F(Sdk, StreamingCanBeTurnedOff) {
  ClusterMasterConfig config;
  config.listen_port = 0;
  config.data_dir = dir_ / "m";
  config.enable_streaming = false;
  ClusterMaster master(config);
  ASSERT_TRUE(master.start()) << master.lastError();
  EXPECT_FALSE(master.subscribeToEvents([](const std::string&, const TraceEvent&) {}));
  EXPECT_EQ(master.lastStatus().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tracesmith::cluster
