#include "nccl_proxies.hpp"

#include <unistd.h>

#include <vector>

#include "nccl.hpp"

namespace tracesmith::fake {
namespace {

/// Until the clock of the records has moved on by so much.
void pass(uint64_t ns) {
  for (const uint64_t start = cuda().now(); cuda().now() < start + ns;) {
  }
}

enum : int {
  kSendGpuWait = 8,
  kSendWait = 9,
  kRecvWait = 10,
  kRecvFlushWait = 11,
  kRecvGpuWait = 12,
  kSendPeerWait = 20
};

}  // namespace

void proxy() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  std::vector<void*> open;
  for (int i = 0; i < 10; ++i)
    open.push_back(nccl.startProxyOp(world, ::getpid(), static_cast<uint8_t>(i), i % 4, i % 2 == 0));
  for (int i = 0; i < 5; ++i)
    if (nccl.startProxyOp(world, ::getpid() + 1, 0, 0, true)) die("an operation of another process was taken");
  for (void* handle : open) {
    nccl.state(handle, 19, nullptr);
    nccl.stop(handle);
  }
}

void proxySteps(int version) {
  Nccl nccl(version);
  Communicator world;
  nccl.init(world);
  constexpr uint64_t kMs = 1'000'000;
  void* send = nccl.startProxyOp(world, ::getpid(), 1, 2, true);
  void* first = nccl.startProxyStep(world, send, 0);
  nccl.stepState(first, kSendGpuWait, 0);
  pass(4 * kMs);  // the GPU
  if (version >= 4) nccl.stepState(first, kSendPeerWait, 0);
  if (version >= 4) nccl.stepState(first, kSendPeerWait, 0);  // it tries again
  void* second = nccl.startProxyStep(world, send, 2);
  nccl.stepState(second, kSendGpuWait, 0);
  pass(2 * kMs);  // the peer, while the other waits for the GPU
  nccl.stepState(first, kSendWait, 1000);
  pass(8 * kMs);  // the network
  nccl.stepState(second, kSendWait, 500);
  nccl.stop(first);
  nccl.stop(second);
  nccl.stepState(second, kSendGpuWait, 0);  // too late: it has ended
  nccl.stop(send);
  nccl.stepState(first, kSendGpuWait, 7);
  nccl.stop(first);
  void* receive = nccl.startProxyOp(world, ::getpid(), 1, 3, false);
  void* step = nccl.startProxyStep(world, receive, 0);
  nccl.stepState(step, kRecvWait, 0);
  pass(3 * kMs);
  nccl.stepState(step, kRecvFlushWait, 2000);
  nccl.stepState(step, kRecvGpuWait, 2000);
  pass(1 * kMs);
  nccl.stop(step);
  nccl.stop(receive);
  nccl.stop(nccl.startProxyOp(world, ::getpid(), 1, 2, true));
  if (nccl.startProxyStep(world, reinterpret_cast<void*>(0x123456), 0)) die("a step of nothing was taken");
}

}  // namespace tracesmith::fake
