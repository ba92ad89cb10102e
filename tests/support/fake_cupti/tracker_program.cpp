// A program that follows its own NCCL calls, with groups and call stacks. Prints what it got, a line each.
//   tracker_program VERSION [nostack]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nccl.hpp"
#include "tracesmith/cluster/nccl_tracker.hpp"

using namespace tracesmith;
using namespace tracesmith::fake;

namespace {

constexpr const char* kKernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

void print(const cluster::NCCLOperation& o) {
  std::string callers;
  if (o.call_stack)
    for (const std::string& frame : *o.call_stack)
      if (frame.starts_with("calls")) callers += frame.substr(0, frame.find("+") + 1);
  std::printf("op|%s|%llu|group %lld|%s%s\n", cluster::ncclOpName(o.op_type), static_cast<unsigned long long>(o.count),
              o.group_id ? static_cast<long long>(*o.group_id) : -1LL, callers.c_str(), o.call_stack ? "" : "no stack");
}

}  // namespace

extern "C" [[gnu::noinline, gnu::visibility("default")]] void callsOne(Nccl& nccl, const Communicator& c) {
  runKernel(kKernel, 20, nccl.group(c, {{.count = 1}}, stream(20)));
}
extern "C" [[gnu::noinline, gnu::visibility("default")]] void callsGroup(Nccl& nccl, const Communicator& c) {
  const Op send{.function = "Send", .count = 3, .peer = 1};
  runKernel(kKernel, 20, nccl.group(c, {{.count = 2}, send}, stream(20)));
}

int main(int, char** argv) {
  cluster::NCCLTrackerConfig config;
  config.capture_call_stack = !argv[2];
  cluster::NCCLTracker tracker(config);
  tracker.startCapture();
  std::printf("early|%s\n", tracker.lastError().c_str());
  if (!tracker.installHooks()) die(tracker.lastError());
  cuda().init();
  Nccl nccl(std::atoi(argv[1]));
  Communicator world;
  nccl.init(world);
  tracker.startCapture();
  callsOne(nccl, world);
  callsGroup(nccl, world);
  callsOne(nccl, world);
  tracker.stopCapture();
  std::vector<cluster::NCCLOperation> all = tracker.getOperations();
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.enqueue_time < b.enqueue_time; });
  for (const cluster::NCCLOperation& o : all) print(o);
  for (cluster::NCCLOpType type : {cluster::NCCLOpType::GroupStart, cluster::NCCLOpType::GroupEnd})
    for (const cluster::NCCLOperation& o : tracker.getOperationsByType(type)) print(o);
  return 0;
}
