#include "capture/probe/nccl_proxy.hpp"

#include "capture/probe/nccl_open.hpp"

namespace tracesmith::probe {
namespace {

enum Wait : uint8_t { kNothing, kGpu, kPeer, kNet, kWaits };
constexpr uint32_t kMostSteps = 1u << kStepBits;  // of an operation at once; NCCL has 8
constexpr int kNoState = 0;

Wait waitOf(int state) {
  switch (state) {
    case nccl::kSendGpuWait:
    case nccl::kRecvGpuWait:
      return kGpu;
    case nccl::kSendPeerWait:
      return kPeer;
    case nccl::kSendWait:
    case nccl::kRecvWait:
    case nccl::kRecvFlushWait:
      return kNet;
    default:
      return kNothing;
  }
}

/// Its steps overlap. Each moment counts once: as time on the network if one of them is there, else as time waiting for
/// the peer's credit if one of them does, else as time waiting for the GPU.
struct ProxyOperation {
  ring::ProxyRecord record;
  uint64_t moved = 0;              // bytes, as far as its steps reported them
  uint64_t since = 0;              // when what it waits for last changed
  uint8_t state[kMostSteps] = {};  // of its steps, as NCCL numbers them
  uint8_t waiting[kWaits] = {};    // how many steps wait for each

  void passTo(uint64_t now) {
    uint64_t* const waits[kWaits] = {nullptr, &record.gpu_wait, &record.peer_wait, &record.net_wait};
    const Wait wait = waiting[kNet] ? kNet : waiting[kPeer] ? kPeer : waiting[kGpu] ? kGpu : kNothing;
    if (waits[wait]) *waits[wait] += now - since;
    since = now;
  }
  void setStep(uint32_t step, int to) {
    const Wait before = waitOf(state[step]), after = waitOf(to);
    state[step] = static_cast<uint8_t>(to);
    if (before == after) return;
    passTo(ring::nowNs());
    if (before != kNothing) --waiting[before];
    if (after != kNothing) ++waiting[after];
  }
};
Open<ProxyOperation, 4096, kProxyHandle> g_operations;

// The handle of a step is its operation's with the step's number in it.
constexpr int kStepShift = kKindBits + kSlotBits;
constexpr uint64_t kKindMask = (1ull << kKindBits) - 1, kStepMask = (kMostSteps - 1ull) << kStepShift;
uint32_t stepOf(uint64_t handle) { return static_cast<uint32_t>((handle & kStepMask) >> kStepShift); }
uint64_t operationOf(uint64_t step) { return (step & ~(kStepMask | kKindMask)) | kProxyHandle; }

}  // namespace

uint64_t beginProxyOp(uint64_t comm, const nccl::ProxyOp& op) {
  ProxyOperation o;
  o.record = {.comm = comm,
              .start = ring::nowNs(),
              .send = op.is_send != 0,
              .channel = op.channel,
              .peer = op.peer,
              .steps = static_cast<uint32_t>(op.steps),
              .bytes = static_cast<uint64_t>(op.chunk_bytes) * static_cast<uint64_t>(op.steps)};
  return g_operations.begin(o);
}

uint64_t beginProxyStep(uint64_t op, int step) {
  const uint32_t slot = static_cast<uint32_t>(step) % kMostSteps;
  if (kindOf(op) != kProxyHandle || !g_operations.change(op, [&](ProxyOperation& o) { o.setStep(slot, kNoState); }))
    return 0;
  return (op & ~kKindMask) | static_cast<uint64_t>(slot) << kStepShift | kStepHandle;
}

void setProxyStep(uint64_t step, int state, const size_t* bytes) {
  const Wait wait = waitOf(state);
  if (kindOf(step) != kStepHandle || wait == kNothing) return;
  g_operations.change(operationOf(step), [&](ProxyOperation& o) {
    ring::ProxyRecord& r = o.record;
    if (r.gpu_wait == ring::kUnknown) r.gpu_wait = r.net_wait = 0;        // the first: from now on they are measured
    if (wait == kPeer && r.peer_wait == ring::kUnknown) r.peer_wait = 0;  // not for receives, nor before NCCL 2.27
    // The size is known when it is on the network or has come. NCCL repeats a state while it retries.
    const bool transfer = state == nccl::kSendWait || state == nccl::kRecvFlushWait;
    if (transfer && bytes && o.state[stepOf(step)] != state) o.moved += *bytes;
    o.setStep(stepOf(step), state);
  });
}

void endProxyStep(uint64_t step) {
  if (kindOf(step) == kStepHandle)
    g_operations.change(operationOf(step), [&](ProxyOperation& o) { o.setStep(stepOf(step), kNoState); });
}

void endProxyOp(RingWriter& r, uint64_t op) {
  ProxyOperation o;
  if (!g_operations.end(op, o)) return;
  o.record.end = ring::nowNs();
  o.passTo(o.record.end);
  if (o.moved > 0) o.record.bytes = o.moved;
  r.write(encode(o.record));
}

}  // namespace tracesmith::probe
