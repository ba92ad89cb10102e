// A master inside a program: waits for nodes, captures them all for two seconds while it counts the events that come
// in, goes through them in the order of time, writes the trace for TraceSmith and for the Perfetto page.
//   cluster_master_example NODES [PORT] [DATA_DIR] [OUTPUT]      writes OUTPUT.sbt, OUTPUT.pftrace, OUTPUT.json
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tracesmith/cluster/cluster_master.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cluster;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s NODES [PORT] [DATA_DIR] [OUTPUT]\n", argv[0]);
    return 2;
  }
  ClusterMasterConfig config;
  config.heartbeat_interval_ms = 200;
  if (argc > 2) config.listen_port = static_cast<uint16_t>(std::atoi(argv[2]));
  if (argc > 3) config.data_dir = argv[3];
  const std::string output = argc > 4 ? argv[4] : "cluster";
  ClusterMaster master(config);
  auto failed = [&] {
    std::fprintf(stderr, "%s\n", master.lastError().c_str());
    return 1;
  };
  if (!master.start()) return failed();
  std::printf("listening on port %u\n", master.port());
  std::fflush(stdout);
  while (master.getConnectedNodes().size() < static_cast<size_t>(std::atoi(argv[1])))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (const NodeConnection& node : master.getConnectedNodes())
    std::printf("node %s at %s:%u: %u GPUs\n", node.node_id.c_str(), node.address.c_str(), node.port,
                node.info.gpu_count);
  std::atomic<unsigned long long> live{0};
  if (!master.subscribeToEvents([&](const std::string&, const tracesmith::TraceEvent&) { ++live; })) return failed();
  if (!master.startClusterCapture()) return failed();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  if (!master.stopClusterCapture()) return failed();
  const ClusterMaster::ClusterStatistics s = master.getClusterStatistics();
  std::printf("%u nodes, %u GPUs, %llu events stored\n", s.total_nodes, s.total_gpus,
              static_cast<unsigned long long>(s.total_events));
  master.unsubscribeFromEvents();
  std::printf("%llu events seen live, %llu came too fast\n", live.load(),
              static_cast<unsigned long long>(master.eventsLost()));
  ClusterTimeline timeline = master.buildClusterTimeline();
  std::string node_id;
  tracesmith::TraceEvent event;
  if (timeline.next(node_id, event))
    std::printf("the first of %llu events: %s on %s\n", static_cast<unsigned long long>(timeline.event_count),
                event.name.c_str(), node_id.c_str());
  for (const auto& [node, offset] : master.getNodeTimeOffsets())
    std::printf("clock of %s: %lld ns\n", node.c_str(), static_cast<long long>(offset));
  if (!master.exportToSBT(output + ".sbt") || !master.exportToPerfetto(output + ".pftrace") ||
      !master.exportToJSON(output + ".json"))
    return failed();
  return 0;
}
