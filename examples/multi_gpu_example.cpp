// Profiles all GPUs of this machine from inside a program.
//   multi_gpu_example [cuda|sim] [SECONDS]
// With cuda, put your own work where it sleeps; sim needs no GPU.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "tracesmith/cluster/multi_gpu_profiler.hpp"

using namespace tracesmith;

int main(int argc, char** argv) {
  cluster::MultiGPUConfig config;
  config.platform = argc > 1 ? platformFromName(argv[1]) : detectPlatform();
  if (config.platform == PlatformType::Unknown) {
    std::fprintf(stderr, "no GPU here: try  multi_gpu_example sim\n");
    return 1;
  }
  config.nvlink_interval_ms = 100;
  config.profiler.sim.gpus = 4;
  config.profiler.sim.faults = {"slow-gpu=2:1.3"};
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;

  cluster::MultiGPUProfiler profiler(config);
  if (!profiler.initialize() || !profiler.startCapture()) {
    std::fprintf(stderr, "cannot profile: %s\n", profiler.lastError().c_str());
    return 1;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));  // the work
  profiler.stopCapture();

  for (const DeviceInfo& d : profiler.getAllDeviceInfo())
    std::printf("GPU %u  %s: %llu events\n", d.device_id, d.name.c_str(),
                static_cast<unsigned long long>(profiler.eventsPerGPU(d.device_id)));

  std::vector<TraceEvent> events;
  profiler.getEvents(events);
  std::map<uint32_t, uint64_t> busy;
  std::map<std::string, uint64_t> by_name;
  for (const TraceEvent& e : events)
    if (e.type == EventType::KernelComplete) {
      // A collective lasts until the slowest GPU has come: it says nothing about this one.
      if (!e.name.starts_with("nccl")) busy[e.device_id] += e.duration;
      by_name[e.name] += e.duration;
    }
  for (auto [gpu, ns] : busy) std::printf("GPU %u computed %.1f ms\n", gpu, static_cast<double>(ns) / 1e6);
  std::vector<std::pair<uint64_t, std::string>> top;
  for (auto& [name, ns] : by_name) top.emplace_back(ns, name);
  std::sort(top.rbegin(), top.rend());
  for (size_t i = 0; i < std::min<size_t>(5, top.size()); ++i)
    std::printf("%10.1f ms  %.70s\n", static_cast<double>(top[i].first) / 1e6, top[i].second.c_str());
  size_t copies = 0, sent = 0;
  for (const cluster::MultiGPUProfiler::NVLinkTransfer& t : profiler.getNVLinkTransfers())
    t.counted ? sent += t.bytes : ++copies;
  std::printf("%zu events, %llu lost, %zu copies between GPUs, %.1f GB over NVLink by its counters%s\n", events.size(),
              static_cast<unsigned long long>(profiler.totalEventsDropped()), copies, static_cast<double>(sent) / 1e9,
              config.platform == PlatformType::Sim ? " (simulated)" : "");
  return 0;
}
