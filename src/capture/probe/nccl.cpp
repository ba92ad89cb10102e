// The NCCL profiler plugin role: every collective and point-to-point operation, as NCCL enqueues it.
// NCCL calls from the job's threads, from CUDA's callback threads and from its proxy thread, for one context at once;
// handles may come back long after their operation. So handles are numbers, nothing is ever freed, and no CUDA call is
// made except in a launch, where NCCL itself makes them.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <type_traits>

#include "capture/probe/call_stack.hpp"
#include "capture/probe/nccl_abi.hpp"
#include "capture/probe/nccl_events.hpp"
#include "capture/probe/nccl_open.hpp"
#include "capture/probe/nccl_proxy.hpp"
#include "capture/probe/probe.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::probe {
namespace {

using namespace nccl;

/// One communicator of this process. Never freed: callbacks may come late. One that was finalized is used again when
/// there is no other left.
struct Comm {
  enum State : int { kFree, kUsed, kFinal };
  std::atomic<int> state;
  uint64_t hash;
  int rank, ranks;
  std::atomic<uint32_t>* numbers;  // of sends and receives, by peer: NCCL gives none
  int peers;
  std::atomic<uint64_t> collectives;  // called so far; NCCL's own numbers count each function by itself
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
  comm.collectives.store(0, std::memory_order_relaxed);
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
  if (peer < 0 || peer >= comm.peers) return ring::kUnknown;
  const bool send = function && *function == 'S';
  return comm.numbers[2 * peer + send].fetch_add(1, std::memory_order_relaxed);
}

/// The next collective of a communicator. All its ranks call them in one order, so that the number is the same on all
/// of them, whoever records since when.
uint64_t nextNumber(Comm& comm) {
  if (&comm == &g_any_comm) return Call::kNoNumber;  // it stands for several
  return comm.collectives.fetch_add(1, std::memory_order_relaxed);
}

struct Launch {
  uint64_t start;
  uint32_t stream;
  Call group;
  void* handle;     // of the stream
  uint32_t events;  // around it; 0: none
};
std::atomic<uint64_t> g_groups{0};  // of calls, so far
Open<Launch, 256, kLaunchHandle> g_launches;

int eventMask() {
  int mask = static_cast<int>(kColl | kP2p | kGroupApi | kCollApi | kP2pApi | kKernelLaunch);
  if (wantsProxy()) mask |= static_cast<int>(kProxyOp | kProxyStep);
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
  r->write(encode(ring::CommRecord{
      .hash = hash, .name = r->intern(name), .start = ring::nowNs(), .rank = rank, .ranks = ranks, .nodes = nodes}));
  return 0;
}

void noteNoLaunches() {
  if (RingWriter* r = ringOrNull(); r && eventsAsked())
    note(*r, "NCCL before 2.28 does not tell of its launches: its operations are not timed by events");
}

int initV1(void** context, int* mask) {
  noteNoLaunches();
  return init(context, mask, nullptr, 0, 0, 0, -1);
}
int initV4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, Log) {
  noteNoLaunches();
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

struct Operation {
  const char* function = nullptr;
  ring::OperationRecord record;
};

void write(RingWriter& r, Operation o) {
  o.record.function = r.intern(o.function);
  o.record.start = ring::nowNs();
  r.write(encode(o.record));
}

const char* functionV1(uint8_t function) {
  return function < sizeof kFunctionsV1 / sizeof *kFunctionsV1 ? kFunctionsV1[function] : nullptr;
}
uint8_t plusOne(uint8_t number) { return static_cast<uint8_t>(number + 1); }

/// The number of a collective is taken when the program calls it. NCCL tells of the collective itself only later, and
/// not on all ranks in the same order: of one in a CUDA graph here when it is captured, there with each replay. NCCL
/// before 2.28 does not tell of the call.
Call calledAs(Comm& comm, const Descriptor& d) {
  Call call = callOf(fromHandle(d.parent));
  if (call.kind != kCallHandle || call.number == Call::kNoNumber) call.number = nextNumber(comm);
  return call;
}

template <int kVersion>
Operation collective(Comm& comm, const Descriptor& d) {
  using Coll =
      std::conditional_t<kVersion >= 4, CollV4,
                         std::conditional_t<kVersion == 3, CollV3, std::conditional_t<kVersion == 2, CollV2, CollV1>>>;
  const auto& c = reinterpret_cast<const Coll&>(d.coll);
  const Call call = calledAs(comm, d);
  Operation o{.record = {.sequence = call.number == Call::kNoNumber ? ring::kUnknown : call.number,
                         .elements = c.count,
                         .nccl_sequence = c.sequence,
                         .channels = c.channels,
                         .root = static_cast<int16_t>(c.root),
                         .captured = call.captured,
                         .stack = call.stack}};
  if constexpr (kVersion >= 4) {
    o.record.comm = comm.hash;
    o.record.rank = comm.rank;
    o.record.ranks = static_cast<uint32_t>(comm.ranks);
  } else {
    o.record.comm = c.hash;
    o.record.rank = d.rank;
  }
  if constexpr (kVersion == 1) {
    o.function = functionV1(c.function);
    o.record.datatype = plusOne(c.datatype);
    o.record.algo = plusOne(c.algo);
    o.record.proto = plusOne(c.proto);
  } else {
    o.function = c.function;
    o.record.datatype = indexOf(kDatatypes, c.datatype);
    o.record.algo = indexOf(kAlgos, c.algo);
    o.record.proto = indexOf(kProtos, c.proto);
  }
  return o;
}

template <int kVersion>
Operation p2p(Comm& comm, const Descriptor& d) {
  using P2p = std::conditional_t<kVersion >= 4, P2pV4, std::conditional_t<kVersion == 1, P2pV1, P2pV2>>;
  const auto& p = reinterpret_cast<const P2p&>(d.p2p);
  Operation o{.record = {.pair = true, .elements = p.count, .peer = static_cast<int16_t>(p.peer)}};
  if constexpr (kVersion >= 4) {
    o.record.comm = comm.hash;
    o.record.rank = comm.rank;
    o.record.ranks = static_cast<uint32_t>(comm.ranks);
    o.record.channels = p.channels;
  } else {
    o.record.comm = p.hash;
    o.record.rank = d.rank;
  }
  if constexpr (kVersion == 1) {
    o.function = functionV1(p.function);
    o.record.datatype = plusOne(p.datatype);
  } else {
    o.function = p.function;
    o.record.datatype = indexOf(kDatatypes, p.datatype);
  }
  // What is captured is told here when it is captured, there with each replay: it cannot be counted.
  const Call call = callOf(fromHandle(d.parent));
  o.record.captured = call.captured;
  o.record.stack = call.stack;
  if (!o.record.captured) o.record.sequence = numberOf(comm, o.function, p.peer);
  return o;
}

void writeGroup(RingWriter& r, const Call& group, bool ended) {
  if (recording(r) && r.header().wants.load(std::memory_order_relaxed) & ring::kWantGroups)
    r.write(encode(ring::GroupRecord{.ended = ended, .start = ring::nowNs(), .number = group.number}));
}
uint64_t groupOf(const Call& c) { return c.kind == kCallHandle || c.number == Call::kNoNumber ? 0 : c.number; }

/// NCCL tells of a group with its first call, and at which depth: 1 if it made the group itself, for a single call.
Call beginGroup(RingWriter& r, bool captured, int depth) {
  const Call group = {.kind = depth > 1 ? kOwnGroupHandle : kGroupHandle,
                      .captured = captured,
                      .number = 1 + g_groups.fetch_add(1, std::memory_order_relaxed)};
  if (group.kind == kOwnGroupHandle) writeGroup(r, group, false);
  return group;
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
  if (kVersion >= 5 && type == kGroupApi)
    *handle = asHandle(handleOf(beginGroup(*r, d.group_api.graph_captured, d.group_api.depth)));
  if (kVersion >= 5 && type == kP2pApi)
    *handle = asHandle(handleOf({.captured = d.p2p_api.graph_captured, .stack = callStack(*r)}));
  if (kVersion >= 5 && type == kCollApi)
    *handle =
        asHandle(handleOf({.captured = d.coll_api.graph_captured, .number = nextNumber(comm), .stack = callStack(*r)}));
  if (type == kColl || type == kP2p) {  // counted whether anybody records or not
    Operation o = type == kColl ? collective<kVersion>(comm, d) : p2p<kVersion>(comm, d);
    if (!recording(*r)) return 0;
    if (kVersion < 5) o.record.stack = callStack(*r);  // the call that launches it: NCCL tells of no other
    write(*r, o);
    *handle = asHandle(kPlain);
    return 0;
  }
  if (!recording(*r)) return 0;
  if (kVersion >= 5 && type == kKernelLaunch) {
    const Call group = callOf(fromHandle(d.parent));
    void* stream = d.kernel_launch.stream;
    const uint64_t now = ring::nowNs();
    const uint32_t events = beginEvents(*r, stream, group.captured);
    const uint64_t launch = g_launches.begin({now, streamId(stream), group, stream, events});
    if (launch == 0) endEvents(events, stream);
    *handle = asHandle(launch);
  } else if (type == kProxyOp && d.proxy_op.pid == static_cast<int32_t>(r->header().pid)) {
    *handle = asHandle(beginProxyOp(comm.hash, d.proxy_op));
  } else if (type == kProxyStep) {
    *handle = asHandle(beginProxyStep(fromHandle(d.parent), d.proxy_step.step));
  }
  return 0;
}

int stopEvent(void* handle) {
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  const uint64_t h = fromHandle(handle);
  if (!r) return 0;
  switch (kindOf(h)) {
    case kLaunchHandle:
      if (Launch launch; g_launches.end(h, launch))
        r->write(encode(ring::LaunchRecord{.start = launch.start,
                                           .end = ring::nowNs(),
                                           .stream = launch.stream,
                                           .captured = launch.group.captured,
                                           .group = groupOf(launch.group),
                                           .number = endEvents(launch.events, launch.handle)}));
      break;
    case kOwnGroupHandle:
      writeGroup(*r, callOf(h), true);
      break;
    case kStepHandle:
      endProxyStep(h);
      break;
    case kProxyHandle:
      endProxyOp(*r, h);
      break;
    default:
      break;
  }
  return 0;
}

template <int kVersion>
int recordEventState(void* handle, int state, void* args) {
  const auto* step = kVersion >= 4 ? static_cast<const ProxyStepArgs*>(args) : nullptr;
  setProxyStep(fromHandle(handle), state, step ? &step->bytes : nullptr);
  return 0;
}

int finalize(void* context) {
  if (context && context != &g_any_comm) static_cast<Comm*>(context)->state.store(Comm::kFinal);
  return 0;
}

}  // namespace
}  // namespace tracesmith::probe

using namespace tracesmith::probe;

#define TS_PLUGIN(version, init, kind)                                                                               \
  TS_EXPORT tracesmith::nccl::Plugin ncclProfiler_v##version;                                                        \
  tracesmith::nccl::Plugin ncclProfiler_v##version = {"TraceSmith", reinterpret_cast<void*>(init), startEvent<kind>, \
                                                      stopEvent,    recordEventState<kind>,        finalize}
TS_PLUGIN(1, initV1, 1);
TS_PLUGIN(2, initV1, 2);
TS_PLUGIN(3, initV1, 3);
TS_PLUGIN(4, initV4, 4);
TS_PLUGIN(5, initV5, 5);
TS_PLUGIN(6, initV5, 5);
TS_PLUGIN(7, initV5, 5);
