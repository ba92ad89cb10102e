// The NCCL profiler plugin role: every collective and point-to-point operation, as NCCL enqueues it.
// NCCL calls from the job's threads, from CUDA's callback threads and from its proxy thread, for one context at once; handles may
// come back long after their operation. So handles are constants, nothing is ever freed, and no CUDA call is made except in a
// launch, where NCCL itself makes them.
#include <stdlib.h>
#include <string.h>

#include "capture/probe/nccl_abi.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
namespace {

using namespace nccl;
using ring::Kind;

/// One communicator of this process. Never freed: callbacks may come late.
struct Comm {
  uint64_t hash;
  int rank, ranks;
  std::atomic<uint64_t> p2p_sequence;
};
constexpr int kMaxComms = 512;
Comm g_comms[kMaxComms];
std::atomic<int> g_comm_count{0};

// What a handle points to: its first word says what it is, whenever it comes back.
struct Handle {
  uint64_t type;
};
Handle g_group = {kGroup};
// KernelLaunch starts and stops on one thread: its start time waits here.
constexpr int kLaunchSlots = 256;
struct LaunchSlot {
  Handle handle = {kKernelLaunch};
  std::atomic<uint32_t> busy{0};
  uint64_t start = 0;
  uint32_t stream = 0;
};
LaunchSlot g_launches[kLaunchSlots];

constexpr int kProxySlots = 4096;
struct ProxySlot {
  Handle handle = {kProxyOp};
  std::atomic<uint32_t> busy{0};
  Record record{};
};
ProxySlot g_proxy[kProxySlots];

int eventMask() {
  int mask = static_cast<int>(kColl | kP2p | kGroupApi | kCollApi | kP2pApi | kKernelLaunch);
  if (wantsProxy()) mask |= static_cast<int>(kProxyOp);
  return mask;
}

int init(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank) {
  *context = nullptr;
  RingWriter* r = startRing();
  if (!r) {
    *mask = 0;  // never fail: 2.28 would go on calling with half a state
    return 0;
  }
  readRank(*r);
  const int i = g_comm_count.fetch_add(1);
  if (i >= kMaxComms) {
    *mask = 0;
    return 0;
  }
  Comm& comm = g_comms[i];
  comm.hash = hash;
  comm.rank = rank;
  comm.ranks = ranks;
  *context = &comm;
  *mask = eventMask();
  Record record{};
  record.kind = Kind::comm;
  record.name = r->intern(name);
  record.start = ring::nowNs();
  record.arg[0] = hash;
  record.arg[1] = static_cast<uint32_t>(rank) | static_cast<uint64_t>(ranks) << 32;
  record.arg[2] = static_cast<uint64_t>(nodes);
  r->write(record);
  return 0;
}

int initV1(void** context, int* mask) { return init(context, mask, nullptr, 0, 0, 0, -1); }
int initV4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, Log) { return init(context, mask, name, hash, nodes, ranks, rank); }
int initV5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Log) { return init(context, mask, name, id, nodes, ranks, rank); }

template <size_t N>
uint8_t indexOf(const char* const (&list)[N], const char* name) {
  for (size_t i = 1; name && i < N; ++i)
    if (strcmp(list[i], name) == 0) return static_cast<uint8_t>(i);
  return 0;
}

uint64_t packed(const char* datatype, const char* algo, const char* proto, int channels, int root) {
  ring::CollectiveInfo info{};
  info.datatype = indexOf(kDatatypes, datatype);
  info.algo = indexOf(kAlgos, algo);
  info.proto = indexOf(kProtos, proto);
  info.channels = static_cast<uint16_t>(channels);
  info.root = static_cast<int16_t>(root);
  uint64_t word;
  memcpy(&word, &info, sizeof word);
  return word;
}

void writeCollective(RingWriter& r, uint64_t hash, uint64_t sequence, const char* function, size_t count, uint64_t info) {
  Record record{};
  record.kind = Kind::collective;
  record.name = r.intern(function);
  record.start = ring::nowNs();
  record.arg[0] = hash;
  record.arg[1] = sequence;
  record.arg[2] = count;
  record.arg[3] = info;
  r.write(record);
}

void writeP2p(RingWriter& r, Comm* comm, uint64_t hash, const char* function, size_t count, int peer, uint64_t info) {
  Record record{};
  record.kind = Kind::p2p;
  record.device = static_cast<uint16_t>(peer);
  record.name = r.intern(function);
  record.start = ring::nowNs();
  record.arg[0] = hash;
  record.arg[1] = comm ? comm->p2p_sequence.fetch_add(1) : 0;
  record.arg[2] = count;
  record.arg[3] = info;
  r.write(record);
}

void* startLaunch(RingWriter&, void* stream) {
  for (uint32_t i = 0; i < kLaunchSlots; ++i) {
    LaunchSlot& slot = g_launches[i];
    uint32_t free = 0;
    if (slot.busy.load(std::memory_order_relaxed) || !slot.busy.compare_exchange_strong(free, 1)) continue;
    slot.start = ring::nowNs();
    slot.stream = streamId(stream);
    return &slot.handle;
  }
  return nullptr;
}

void stopLaunch(RingWriter& r, LaunchSlot& slot) {
  if (!slot.busy.load()) return;
  Record record{};
  record.kind = Kind::nccl_launch;
  record.start = slot.start;
  record.end = ring::nowNs();
  record.stream = slot.stream;
  slot.busy.store(0);
  r.write(record);
}

void* startProxy(RingWriter&, Comm* comm, const ProxyOp& op) {
  for (ProxySlot& slot : g_proxy) {
    uint32_t free = 0;
    if (slot.busy.load(std::memory_order_relaxed) || !slot.busy.compare_exchange_strong(free, 1)) continue;
    slot.record = Record{};
    slot.record.kind = Kind::proxy_op;
    slot.record.start = ring::nowNs();
    slot.record.arg[0] = comm ? comm->hash : 0;
    slot.record.arg[1] = op.channel | static_cast<uint64_t>(static_cast<uint32_t>(op.peer)) << 32;
    slot.record.arg[2] = static_cast<uint64_t>(op.chunk_bytes) * static_cast<uint64_t>(op.steps);
    slot.record.arg[3] = static_cast<uint32_t>(op.steps) | static_cast<uint64_t>(op.is_send != 0) << 32;
    return &slot.handle;
  }
  return nullptr;
}

/// kVersion: 2 for v1–v3 (v1's names are numbers: function unknown), 4 for v4, 5 for v5 and v6.
template <int kVersion>
int startEvent(void* context, void** handle, void* descriptor) {
  *handle = nullptr;  // first: NCCL keeps stale handles otherwise
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  if (!r || !context || !descriptor) return 0;
  auto* comm = static_cast<Comm*>(context);
  const auto& d = *static_cast<const Descriptor*>(descriptor);
  const uint64_t type = kVersion >= 5 ? d.type : d.type & 0xff;
  if (type == kGroup) *handle = &g_group;  // before 2.28 its children come only if it is not NULL
  if (!recording(*r)) return 0;
  if (type == kColl) {
    if constexpr (kVersion >= 4) {
      writeCollective(*r, comm->hash, d.coll.sequence, d.coll.function, d.coll.count, packed(d.coll.datatype, d.coll.algo, d.coll.proto, d.coll.channels, d.coll.root));
    } else if constexpr (kVersion >= 2) {
      const auto& c = reinterpret_cast<const CollV2&>(d.coll);
      writeCollective(*r, c.hash, c.sequence, c.function, c.count, packed(c.datatype, nullptr, nullptr, 0, c.root));
    }
    *handle = &g_group;
  } else if (type == kP2p) {
    if constexpr (kVersion >= 4) {
      writeP2p(*r, comm, comm->hash, d.p2p.function, d.p2p.count, d.p2p.peer, packed(d.p2p.datatype, nullptr, nullptr, d.p2p.channels, -1));
    } else if constexpr (kVersion >= 2) {
      const auto& p = reinterpret_cast<const P2pV2&>(d.p2p);
      writeP2p(*r, comm, p.hash, p.function, p.count, p.peer, packed(p.datatype, nullptr, nullptr, 0, -1));
    }
    *handle = &g_group;
  } else if (kVersion >= 5 && type == kKernelLaunch) {
    *handle = startLaunch(*r, d.kernel_launch.stream);
  } else if (kVersion >= 4 && type == kProxyOp && d.proxy_op.pid == static_cast<int32_t>(r->header().pid)) {
    *handle = startProxy(*r, comm, d.proxy_op);
  }
  return 0;
}

int stopEvent(void* handle) {
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  if (!r || !handle) return 0;
  // Only our own objects are looked into; anything else is stale or foreign.
  auto* at = static_cast<char*>(handle);
  if (at >= reinterpret_cast<char*>(g_launches) && at < reinterpret_cast<char*>(g_launches + kLaunchSlots)) {
    stopLaunch(*r, *reinterpret_cast<LaunchSlot*>(at));
  } else if (at >= reinterpret_cast<char*>(g_proxy) && at < reinterpret_cast<char*>(g_proxy + kProxySlots)) {
    auto& slot = *reinterpret_cast<ProxySlot*>(at);
    if (slot.busy.load()) {
      Record record = slot.record;
      record.end = ring::nowNs();
      slot.busy.store(0);
      r->write(record);
    }
  }
  return 0;
}

int recordEventState(void*, int, void*) { return 0; }
int finalize(void*) { return 0; }

}  // namespace
}  // namespace tracesmith::probe

using namespace tracesmith::probe;

#define TS_PLUGIN(version, init, kind)                                                                                                        \
  TS_EXPORT tracesmith::nccl::Plugin ncclProfiler_v##version;                                                                                 \
  tracesmith::nccl::Plugin ncclProfiler_v##version = {"TraceSmith", reinterpret_cast<void*>(init), startEvent<kind>, stopEvent, recordEventState, \
                                                      finalize}
TS_PLUGIN(1, initV1, 1);
TS_PLUGIN(2, initV1, 2);
TS_PLUGIN(3, initV1, 2);
TS_PLUGIN(4, initV4, 4);
TS_PLUGIN(5, initV5, 5);
TS_PLUGIN(6, initV5, 5);
