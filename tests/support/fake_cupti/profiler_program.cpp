// A CUDA program that profiles itself through the C++ API. Prints what it got, a line each, for the test to check.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cuda.hpp"
#include "tracesmith/cluster/multi_gpu_profiler.hpp"
#include "tracesmith/cluster/nccl_tracker.hpp"

using namespace tracesmith;

namespace {

// Version 4 of NCCL's profiler interface, as its header has it; our own declarations are not used, so that a mistake in
// them shows.
using Init = int (*)(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                     void (*log)(int, unsigned long, const char*, int, const char*, ...));
struct Plugin {
  const char* name;
  Init init;
  int (*startEvent)(void* context, void** handle, void* descriptor);
  int (*stopEvent)(void* handle);
  int (*recordEventState)(void* handle, int state, void* args);
  int (*finalize)(void* context);
};
struct Descriptor {
  uint8_t type;
  void* parent;
  int rank;
  struct {
    uint64_t seqNumber;
    const char* func;
    const void* sendBuff;
    void* recvBuff;
    size_t count;
    int root;
    const char* datatype;
    uint8_t nChannels, nWarps;
    const char* algo;
    const char* proto;
  } coll;
  char rest[128];  // of the union
};
constexpr uint8_t kColl = 1 << 1;

/// NCCL's side: tells the plugin that the environment names of its operations.
class Nccl {
 public:
  Nccl() {
    void* library = ::dlopen(std::getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    plugin_ = library ? static_cast<Plugin*>(::dlsym(library, "ncclProfiler_v4")) : nullptr;
    if (!plugin_) std::exit(90);
    int mask = 0;
    plugin_->init(&context_, &mask, "world", 77, 1, 4, 2, nullptr);
  }
  void collective(const char* function, size_t count) {
    Descriptor d{};
    d.type = kColl;
    d.rank = 2;
    d.coll.seqNumber = sequence_++;
    d.coll.func = function;
    d.coll.count = count;
    d.coll.root = -1;
    d.coll.datatype = "ncclFloat32";
    d.coll.nChannels = 8;
    d.coll.algo = "RING";
    d.coll.proto = "LL";
    void* handle = nullptr;
    plugin_->startEvent(context_, &handle, &d);
    plugin_->stopEvent(handle);
  }

 private:
  Plugin* plugin_ = nullptr;
  void* context_ = nullptr;
  uint64_t sequence_ = 0;
};

}  // namespace

int main() {
  cluster::NCCLTracker tracker;
  cluster::MultiGPUConfig config;
  config.gpu_ids = {0};
  cluster::MultiGPUProfiler profiler(config);
  if (!tracker.installHooks() || !profiler.initialize()) {
    std::printf("failed: %s%s\n", tracker.lastError().c_str(), profiler.lastError().c_str());
    return 1;
  }
  fake::Cuda& cuda = *new fake::Cuda;
  cuda.init();
  Nccl nccl;
  cuda.launch("before");
  profiler.startCapture();
  tracker.startCapture();
  for (int i = 0; i < 10; ++i) cuda.launch("kernel_" + std::to_string(i));
  cuda.copy(4096);
  cuda.peerCopy(1 << 20, 0);  // from GPU 1
  nccl.collective("AlltoAll", 1 << 16);
  nccl.collective("AllReduce", 1 << 18);
  nccl.collective("AllReduce", 1 << 18);
  const uint64_t called = cuda.now();
  uint64_t now = called;
  while (now < called + 5000) now = cuda.now();  // kernels run after they were called
  cuda.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 20, now - 3000, now - 2000,
              cuda.nextCorrelation());
  cuda.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, now - 1000, now,
              cuda.nextCorrelation());
  profiler.stopCapture();
  tracker.stopCapture();
  cuda.launch("after");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  std::vector<TraceEvent> events;
  profiler.getEvents(events);
  tracker.correlateWithGPUEvents(events);
  for (const TraceEvent& e : events)
    std::printf("event|%s|%s|%llu|%s|%llu\n", eventTypeName(e.type), e.name.c_str(),
                static_cast<unsigned long long>(e.duration),
                e.metadata.contains("nccl_op") ? e.metadata.at("nccl_op").c_str() : "",
                static_cast<unsigned long long>(e.memory_params ? e.memory_params->size_bytes : 0));
  for (const auto& t : profiler.getNVLinkTransfers()) std::printf("link|%u|%u|%zu\n", t.src_gpu, t.dst_gpu, t.bytes);
  for (const DeviceInfo& d : profiler.getAllDeviceInfo())
    std::printf("device|%u|%s|%d|%s\n", d.device_id, d.name.c_str(), d.compute_major.value_or(-1),
                d.memory_bus_bits ? "known" : "unknown");
  for (const cluster::NCCLOperation& o : tracker.getOperations())
    std::printf("nccl|%s|%llu|%llu|%u|%u|%zu|%llu|%s|speed %.9g %.9g\n", cluster::ncclOpName(o.op_type),
                static_cast<unsigned long long>(o.comm_id), static_cast<unsigned long long>(o.op_id), o.rank,
                o.world_size, o.data_size, static_cast<unsigned long long>(o.duration_ns),
                o.in_flight                           ? "in flight"
                : o.red_op == cluster::NCCLRedOp::Sum ? "sum"
                                                      : "?",
                o.algbw_gbps.value_or(0), o.busbw_gbps.value_or(0));
  std::printf("lost|%llu\n", static_cast<unsigned long long>(profiler.totalEventsDropped()));
  return 0;
}
