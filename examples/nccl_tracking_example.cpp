// Follows the NCCL operations of a program from inside it.
//   nccl_tracking_example [cuda|sim] [SECONDS]
// With cuda, install the hooks before the first communicator is made and put your own work where it sleeps.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tracesmith/cluster/nccl_tracker.hpp"

using namespace tracesmith;

int main(int argc, char** argv) {
  cluster::NCCLTrackerConfig config;
  config.platform = argc > 1 ? platformFromName(argv[1]) : detectPlatform();
  if (config.platform == PlatformType::Unknown) {
    std::fprintf(stderr, "no GPU here: try  nccl_tracking_example sim\n");
    return 1;
  }
  config.profiler.sim.gpus = 4;
  config.profiler.sim.faults = {"hang=1:12"};  // rank 1 stops in step 12
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;

  cluster::NCCLTracker tracker(config);
  if (!tracker.installHooks()) {
    std::fprintf(stderr, "cannot follow NCCL: %s\n", tracker.lastError().c_str());
    return 1;
  }
  std::atomic<uint64_t> seen{0};
  tracker.setOperationCallback([&](const cluster::NCCLOperation&) { ++seen; });
  tracker.startCapture();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // the work
  tracker.stopCapture();

  const cluster::NCCLTracker::Statistics s = tracker.getStatistics();
  for (auto [type, count] : s.ops_by_type)
    std::printf("%-14s %6llu operations, %8.1f MB, %8.1f ms\n", cluster::ncclOpName(type),
                static_cast<unsigned long long>(count), static_cast<double>(s.bytes_by_type.at(type)) / 1e6,
                static_cast<double>(s.duration_by_type.at(type)) / 1e6);
  for (const cluster::NCCLOperation& o : tracker.getInFlight())
    std::printf("in flight: %s %llu of communicator %016llx on rank %u\n", cluster::ncclOpName(o.op_type),
                static_cast<unsigned long long>(o.op_id), static_cast<unsigned long long>(o.comm_id), o.rank);
  std::printf("%llu operations, the callback saw %llu%s\n", static_cast<unsigned long long>(s.total_operations),
              static_cast<unsigned long long>(seen.load()), config.platform == PlatformType::Sim ? " (simulated)" : "");
  return 0;
}
