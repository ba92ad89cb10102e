// The NCCL profiler plugin role: every collective and point-to-point operation, as NCCL enqueues it.
// NCCL calls from the job's threads, from CUDA's callback threads and from its proxy thread, for one context at once;
// handles may come back long after their operation. So handles are numbers, nothing is ever freed, and no CUDA call is
// made except in a launch, where NCCL itself makes them.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <type_traits>

#include "capture/probe/nccl_abi.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
namespace {

using namespace nccl;
using ring::Kind;

/// One communicator of this process. Never freed: callbacks may come late. One that was finalized is used again when
/// there is no other left.
struct Comm {
  enum State : int { kFree, kUsed, kFinal };
  std::atomic<int> state;
  uint64_t hash;
  int rank, ranks;
  std::atomic<uint32_t>* numbers;  // of sends and receives, by peer: NCCL gives none
  int peers;
};
constexpr int kMaxComms = 512;
constexpr int kUnknownRanks = 8192;  // v1–v3 do not tell how many there are; pages nobody counts in are never there
Comm g_comms[kMaxComms];
Comm g_any_comm;  // stands for those that found no place: their operations are kept, who they belong to is not

Comm* takeComm() {
  for (int wanted : {Comm::kFree, Comm::kFinal})
    for (Comm& comm : g_comms)
      if (int expected = wanted; comm.state.load(std::memory_order_relaxed) == wanted &&
                                 comm.state.compare_exchange_strong(expected, Comm::kUsed))
        return &comm;
  return nullptr;
}

/// All counts from 0. They stay mapped: callbacks may come late.
void startNumbers(Comm& comm) {
  const int peers = comm.ranks > 0 ? comm.ranks : kUnknownRanks;
  const size_t bytes = 2 * static_cast<size_t>(peers) * sizeof *comm.numbers;
  if (comm.peers >= peers) {
    for (int i = 0; i < 2 * peers; ++i) comm.numbers[i].store(0, std::memory_order_relaxed);
    return;
  }
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  comm.peers = p == MAP_FAILED ? 0 : peers;  // else they have no numbers
  if (p != MAP_FAILED) comm.numbers = static_cast<std::atomic<uint32_t>*>(p);
}

/// The n-th send to a peer is its n-th receive from us, whoever records since when: so all are counted.
uint64_t numberOf(Comm& comm, const char* function, int peer) {
  if (peer < 0 || peer >= comm.peers) return ring::kNoNumber;
  const bool send = function && *function == 'S';
  return comm.numbers[2 * peer + send].fetch_add(1, std::memory_order_relaxed);
}

// Handles are numbers: what it is, its slot, and a count that tells it from those that had the slot before. NCCL only
// hands them back, sometimes long after.
enum HandleKind : uint64_t { kPlain = 1, kLaunchHandle = 2, kProxyHandle = 3 };
constexpr int kKindBits = 2, kSlotBits = 14;

void* asHandle(uint64_t h) { return reinterpret_cast<void*>(static_cast<uintptr_t>(h)); }

/// Things that have begun and not ended.
template <typename T, uint32_t kSlots, HandleKind kKind>
class Open {
  static_assert(kSlots <= 1u << kSlotBits);

 public:
  /// 0 if there is no slot left.
  uint64_t begin(const T& value) {
    uint32_t i = next_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t n = 0; n < kSlots; ++n, ++i) {
      Slot& slot = slots_[i % kSlots];
      uint64_t free = 0;
      if (slot.handle.load(std::memory_order_relaxed) != 0 ||
          !slot.handle.compare_exchange_strong(free, kBusy, std::memory_order_acquire))
        continue;
      slot.value = value;
      const uint64_t handle =
          ++slot.count << (kKindBits + kSlotBits) | static_cast<uint64_t>(i % kSlots) << kKindBits | kKind;
      slot.handle.store(handle, std::memory_order_release);
      return handle;
    }
    return 0;
  }
  /// False if it ended already, or never was.
  bool end(uint64_t handle, T& value) {
    Slot& slot = slots_[(handle >> kKindBits & ((1u << kSlotBits) - 1)) % kSlots];
    if (!slot.handle.compare_exchange_strong(handle, kBusy, std::memory_order_acquire)) return false;
    value = slot.value;
    slot.handle.store(0, std::memory_order_release);
    return true;
  }

 private:
  static constexpr uint64_t kBusy = ~0ull;
  struct Slot {
    std::atomic<uint64_t> handle{0};
    uint64_t count = 0;
    T value{};
  };
  Slot slots_[kSlots];
  std::atomic<uint32_t> next_{0};
};

struct Launch {
  uint64_t start;
  uint32_t stream;
};
Open<Launch, 256, kLaunchHandle> g_launches;
Open<Record, 4096, kProxyHandle> g_proxy;

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
  *mask = eventMask();  // one word for all communicators of the process: never less than the others need
  Comm* comm = takeComm();
  if (!comm) {
    *context = &g_any_comm;
    note(*r, "more than 512 communicators at once: operations of the later ones have no communicator");
    return 0;
  }
  comm->hash = hash;
  comm->rank = rank;
  comm->ranks = ranks;
  startNumbers(*comm);
  *context = comm;
  if (hash == 0) return 0;  // v1–v3 tell with each operation
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
int initV4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, Log) {
  return init(context, mask, name, hash, nodes, ranks, rank);
}
int initV5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Log) {
  return init(context, mask, name, id, nodes, ranks, rank);
}

template <size_t N>
uint8_t indexOf(const char* const (&list)[N], const char* name) {
  for (size_t i = 1; name && i < N; ++i)
    if (strcmp(list[i], name) == 0) return static_cast<uint8_t>(i);
  return 0;
}

uint64_t packed(uint8_t datatype, uint8_t algo, uint8_t proto, int channels, int root) {
  ring::CollectiveInfo info{};
  info.datatype = datatype;
  info.algo = algo;
  info.proto = proto;
  info.channels = static_cast<uint16_t>(channels);
  info.root = static_cast<int16_t>(root);
  uint64_t word;
  memcpy(&word, &info, sizeof word);
  return word;
}
uint64_t packed(const char* datatype, const char* algo, const char* proto, int channels, int root) {
  return packed(indexOf(kDatatypes, datatype), indexOf(kAlgos, algo), indexOf(kProtos, proto), channels, root);
}

struct Operation {
  Kind kind = Kind::collective;
  uint64_t hash = 0, sequence = 0;
  int rank = -1, ranks = 0;
  const char* function = nullptr;
  size_t count = 0;
  uint64_t info = 0;
  int peer = -1;
};

void write(RingWriter& r, const Operation& o) {
  Record record{};
  record.kind = o.kind;
  if (o.kind == Kind::p2p) record.device = static_cast<uint16_t>(o.peer);
  record.name = r.intern(o.function);
  record.start = ring::nowNs();
  record.stream = static_cast<uint32_t>(o.rank + 1);
  record.correlation = static_cast<uint32_t>(o.ranks);
  record.arg[0] = o.hash;
  record.arg[1] = o.sequence;
  record.arg[2] = o.count;
  record.arg[3] = o.info;
  r.write(record);
}

const char* functionV1(uint8_t function) {
  return function < sizeof kFunctionsV1 / sizeof *kFunctionsV1 ? kFunctionsV1[function] : nullptr;
}
uint8_t plusOne(uint8_t number) { return static_cast<uint8_t>(number + 1); }

template <int kVersion>
Operation collective(const Comm& comm, const Descriptor& d) {
  if constexpr (kVersion >= 4) {
    const CollV4& c = d.coll;
    return {Kind::collective, comm.hash,  c.sequence, comm.rank,
            comm.ranks,       c.function, c.count,    packed(c.datatype, c.algo, c.proto, c.channels, c.root)};
  } else if constexpr (kVersion == 1) {
    const auto& c = reinterpret_cast<const CollV1&>(d.coll);
    const uint64_t info = packed(plusOne(c.datatype), plusOne(c.algo), plusOne(c.proto), c.channels, c.root);
    return {Kind::collective, c.hash, c.sequence, d.rank, 0, functionV1(c.function), c.count, info};
  } else {
    const auto& c = reinterpret_cast<const std::conditional_t<kVersion == 2, CollV2, CollV3>&>(d.coll);
    return {Kind::collective,
            c.hash,
            c.sequence,
            d.rank,
            0,
            c.function,
            c.count,
            packed(c.datatype, c.algo, c.proto, c.channels, c.root)};
  }
}

template <int kVersion>
Operation p2p(Comm& comm, const Descriptor& d) {
  Operation o;
  if constexpr (kVersion >= 4) {
    const P2pV4& p = d.p2p;
    o = {Kind::p2p,  comm.hash,  0,       comm.rank,
         comm.ranks, p.function, p.count, packed(p.datatype, nullptr, nullptr, p.channels, -1),
         p.peer};
  } else if constexpr (kVersion == 1) {
    const auto& p = reinterpret_cast<const P2pV1&>(d.p2p);
    o = {Kind::p2p, p.hash, 0, d.rank, 0, functionV1(p.function), p.count, packed(plusOne(p.datatype), 0, 0, 0, -1),
         p.peer};
  } else {
    const auto& p = reinterpret_cast<const P2pV2&>(d.p2p);
    o = {Kind::p2p, p.hash, 0, d.rank, 0, p.function, p.count, packed(p.datatype, nullptr, nullptr, 0, -1), p.peer};
  }
  o.sequence = numberOf(comm, o.function, o.peer);
  return o;
}

Record proxyRecord(const Comm& comm, const ProxyOp& op) {
  Record record{};
  record.kind = Kind::proxy_op;
  record.start = ring::nowNs();
  record.arg[0] = comm.hash;
  record.arg[1] = op.channel | static_cast<uint64_t>(static_cast<uint32_t>(op.peer)) << 32;
  record.arg[2] = static_cast<uint64_t>(op.chunk_bytes) * static_cast<uint64_t>(op.steps);
  record.arg[3] = static_cast<uint32_t>(op.steps) | static_cast<uint64_t>(op.is_send != 0) << 32;
  return record;
}

template <int kVersion>
int startEvent(void* context, void** handle, void* descriptor) {
  *handle = nullptr;  // first: NCCL keeps stale handles otherwise
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  if (!r || !context || !descriptor) return 0;
  auto& comm = *static_cast<Comm*>(context);
  const auto& d = *static_cast<const Descriptor*>(descriptor);
  const uint64_t type = kVersion >= 5 ? d.type : d.type & 0xff;
  if (type == kGroup) *handle = asHandle(kPlain);  // before 2.28 its children come only if it is not NULL
  if (type == kP2p) {
    const Operation o = p2p<kVersion>(comm, d);
    if (!recording(*r)) return 0;
    write(*r, o);
    *handle = asHandle(kPlain);
    return 0;
  }
  if (!recording(*r)) return 0;
  if (type == kColl) {
    write(*r, collective<kVersion>(comm, d));
    *handle = asHandle(kPlain);
  } else if (kVersion >= 5 && type == kKernelLaunch) {
    *handle = asHandle(g_launches.begin({ring::nowNs(), streamId(d.kernel_launch.stream)}));
  } else if (type == kProxyOp && d.proxy_op.pid == static_cast<int32_t>(r->header().pid)) {
    *handle = asHandle(g_proxy.begin(proxyRecord(comm, d.proxy_op)));
  }
  return 0;
}

int stopEvent(void* handle) {
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  const auto h = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(handle));
  if (!r) return 0;
  if ((h & 3) == kLaunchHandle) {
    Launch launch;
    if (!g_launches.end(h, launch)) return 0;
    Record record{};
    record.kind = Kind::nccl_launch;
    record.start = launch.start;
    record.end = ring::nowNs();
    record.stream = launch.stream;
    r->write(record);
  } else if ((h & 3) == kProxyHandle) {
    Record record;
    if (!g_proxy.end(h, record)) return 0;
    record.end = ring::nowNs();
    r->write(record);
  }
  return 0;
}

int recordEventState(void*, int, void*) { return 0; }
int finalize(void* context) {
  if (context && context != &g_any_comm) static_cast<Comm*>(context)->state.store(Comm::kFinal);
  return 0;
}

}  // namespace
}  // namespace tracesmith::probe

using namespace tracesmith::probe;

#define TS_PLUGIN(version, init, kind)                        \
  TS_EXPORT tracesmith::nccl::Plugin ncclProfiler_v##version; \
  tracesmith::nccl::Plugin ncclProfiler_v##version = {        \
      "TraceSmith", reinterpret_cast<void*>(init), startEvent<kind>, stopEvent, recordEventState, finalize}
TS_PLUGIN(1, initV1, 1);
TS_PLUGIN(2, initV1, 2);
TS_PLUGIN(3, initV1, 3);
TS_PLUGIN(4, initV4, 4);
TS_PLUGIN(5, initV5, 5);
TS_PLUGIN(6, initV5, 5);
