// A node of a cluster inside a program: captures itself for a moment, then serves its master for a while.
//   cluster_agent_example MASTER_HOST:PORT [NODE_ID] [SIMULATED_GPUS] [SECONDS] [DATA_DIR]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tracesmith/cluster/node_aggregator.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith::cluster;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MASTER_HOST:PORT [NODE_ID] [SIMULATED_GPUS] [SECONDS] [DATA_DIR]\n", argv[0]);
    return 2;
  }
  NodeAggregatorConfig config;
  config.master = argv[1];
  config.port = 0;
  if (argc > 2) config.node_id = argv[2];
  if (argc > 3) config.simulated_gpus = std::atoi(argv[3]);
  const double seconds = argc > 4 ? std::atof(argv[4]) : 60;
  if (argc > 5) config.data_dir = argv[5];
  NodeAggregator node(config);
  if (!node.initialize()) {
    std::fprintf(stderr, "%s\n", node.lastError().c_str());
    return 1;
  }
  if (!node.startCapture()) std::fprintf(stderr, "%s\n", node.lastError().c_str());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (node.stopCapture())
    if (const TraceRecord own = node.exportTrace(); !own.path.empty())
      std::printf("%llu events of its own in %s\n", static_cast<unsigned long long>(own.event_count), own.path.c_str());
  const NodeInfo info = node.getNodeInfo();
  std::printf("node %s with %u GPUs\n", info.node_id.c_str(), info.gpu_count);
  std::fflush(stdout);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const NodeAggregator::Statistics s = node.getStatistics();
  std::printf("%llu records, %llu lost\n", static_cast<unsigned long long>(s.total_events),
              static_cast<unsigned long long>(s.lost_events));
  if (s.clock_error_bound_ns)
    std::printf("clock known to %lld ns\n", static_cast<long long>(*s.clock_error_bound_ns));
  else
    std::printf("clock not compared with the master's yet\n");
  return 0;
}
