// The NCCL profiler plugin role: every collective and point-to-point operation, as NCCL enqueues it.
// NCCL calls from the job's threads, from CUDA's callback threads and from its proxy thread, for one context at once;
// handles may come back long after their operation. So handles are numbers, nothing is ever freed, and no CUDA call is
// made except in a launch, where NCCL itself makes them.
#include <stdlib.h>
#include <string.h>

#include <type_traits>

#include "capture/probe/call_stack.hpp"
#include "capture/probe/graphs.hpp"
#include "capture/probe/nccl_abi.hpp"
#include "capture/probe/nccl_comm.hpp"
#include "capture/probe/nccl_events.hpp"
#include "capture/probe/nccl_open.hpp"
#include "capture/probe/nccl_proxy.hpp"
#include "capture/probe/probe.hpp"
#include "capture/probe/versions.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::probe {
namespace {

using namespace nccl;

struct Launch {
  uint64_t start;
  uint32_t stream;
  Call group;
  bool copies;
  ring::OperationRecord operation;  // of copies: what they are for
  void* handle;                     // of the stream
  uint32_t events;                  // around it; 0: none
};
std::atomic<uint64_t> g_groups{0};  // of calls, so far
Open<Launch, 256, kLaunchHandle> g_launches;

int eventMask() {
  int mask = static_cast<int>(kColl | kP2p | kGroupApi | kCollApi | kP2pApi | kKernelLaunch | kCeColl);
  if (wantsProxy()) mask |= static_cast<int>(kProxyOp | kProxyStep);
  return mask;
}

/// `caller`: in NCCL.
int init(const void* caller, void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
         int rank) {
  *context = nullptr;
  RingWriter* r = startRing();
  if (!r) {
    *mask = 0;  // never fail: 2.28 would go on calling with an incomplete state
    return 0;
  }
  readRank(*r);
  tellVersions(*r, caller);
  *mask = eventMask();  // one word for all communicators of the process: never clear what others need
  Comm* comm = takeComm();
  if (!comm) {
    *context = &g_any_comm;
    note(*r, "more than 512 communicators at once: operations of the later ones are recorded without a communicator");
    return 0;
  }
  comm->hash = hash;
  comm->rank = rank;
  comm->ranks = ranks;
  startNumbers(*comm);
  *context = comm;
  if (hash == 0) return 0;  // v1–v3 report it with each operation
  r->write(encode(ring::CommRecord{
      .hash = hash, .name = r->intern(name), .start = ring::nowNs(), .rank = rank, .ranks = ranks, .nodes = nodes}));
  return 0;
}

void noteNoLaunches() {
  if (RingWriter* r = ringOrNull(); r && eventsAsked())
    note(*r, "NCCL before 2.28 does not report its launches: its operations are not timed by events");
}

int initV1(void** context, int* mask) {
  noteNoLaunches();
  return init(__builtin_return_address(0), context, mask, nullptr, 0, 0, 0, -1);
}
int initV4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank, Log) {
  noteNoLaunches();
  return init(__builtin_return_address(0), context, mask, name, hash, nodes, ranks, rank);
}
int initV5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank, Log) {
  return init(__builtin_return_address(0), context, mask, name, id, nodes, ranks, rank);
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

/// The group of calls that an operation is in; 0: not known.
uint32_t groupOf(const Comm& comm, const Call& c) {
  if (c.kind != kCallHandle || c.grouped) return static_cast<uint32_t>(c.number);
  return groupOf(comm, c.number);  // also of the sends and receives that a collective is made of
}

/// The number of a collective is taken when the program calls it. NCCL reports the collective itself only later, and
/// not in the same order on all ranks: one in a CUDA graph is reported at its capture or at each replay. NCCL before
/// 2.28 does not report the call.
Call calledAs(Comm& comm, const Descriptor& d) {
  Call call = callOf(fromHandle(d.parent));
  if (call.kind != kCallHandle || call.grouped || (!call.captured && call.number == Call::kNoNumber))
    call = {.captured = call.captured, .number = nextNumber(comm), .stack = call.stack};
  return call;
}

/// A collective or (pair) a send or receive is called, and captured into a CUDA graph.
Call captured(RingWriter& r, Comm& comm, const Descriptor& d, bool pair) {
  const char* function = pair ? d.p2p_api.function : d.coll_api.function;
  ring::OperationRecord o{.pair = pair,
                          .function = r.intern(function),
                          .comm = comm.hash,
                          .elements = pair ? d.p2p_api.count : d.coll_api.count,
                          .rank = comm.rank,
                          .ranks = static_cast<uint32_t>(comm.ranks),
                          .datatype = indexOf(kDatatypes, pair ? d.p2p_api.datatype : d.coll_api.datatype)};
  if (!pair) o.root = d.coll_api.root;
  o.stack = callStack(r);
  // As NCCL tells of them elsewhere: in bytes.
  if (function && (strcmp(function, "AllGather") == 0 || strcmp(function, "Broadcast") == 0)) {
    o.elements = static_cast<uint64_t>(bytesOf(o));
    o.datatype = indexOf(kDatatypes, "ncclInt8");
  }
  const CapturedId id =
      captureOperation(pair ? d.p2p_api.stream : d.coll_api.stream, &comm, o, function && *function == 'S');
  return {.captured = true, .number = id ? id : Call::kNoNumber, .stack = o.stack};
}

/// NCCL tells of what was captured: then, or with each replay. Whether that is to be recorded: the launch of the graph
/// may have been.
bool recordsCaptured(Comm& comm, const ring::OperationRecord& o, const char* function, const Call& call) {
  const bool known = call.kind == kCallHandle && call.number != Call::kNoNumber;
  switch (!known ? Told::unknown : tellCaptured(call.number, o)) {
    case Told::late:
      numberOf(comm, function, o.peer);  // the next ones must not get it
      return true;
    case Told::launched:
      return false;
    default:
      return true;
  }
}

template <int kVersion>
Operation collective(Comm& comm, const Descriptor& d) {
  using Coll =
      std::conditional_t<kVersion >= 4, CollV4,
                         std::conditional_t<kVersion == 3, CollV3, std::conditional_t<kVersion == 2, CollV2, CollV1>>>;
  const auto& c = reinterpret_cast<const Coll&>(d.coll);
  const Call call = calledAs(comm, d);
  const bool numbered = !call.captured && call.number != Call::kNoNumber;
  Operation o{.record = {.sequence = numbered ? call.number : ring::kUnknown,
                         .elements = c.count,
                         .nccl_sequence = c.sequence,
                         .channels = c.channels,
                         .root = c.root,
                         .captured = call.captured,
                         .stack = call.stack,
                         .group = numbered ? groupOf(comm, call) : 0}};
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
  Operation o{.record = {.pair = true, .elements = p.count, .peer = p.peer}};
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
  // What is captured is told here when it is captured, there with each replay: it is counted when its graph is
  // launched.
  const Call call = callOf(fromHandle(d.parent));
  o.record.captured = call.captured;
  o.record.stack = call.stack;
  if (!o.record.captured) {
    o.record.sequence = numberOf(comm, o.function, p.peer);
    o.record.group = groupOf(comm, call);
  }
  return o;
}

/// A collective that the copy engines do: there is no kernel, and NCCL tells of nothing else. Until it ends its copies
/// are launched.
void* beginCopies(RingWriter& r, Comm& comm, const Descriptor& d) {
  const Call call = calledAs(comm, d);
  if (call.captured || !recording(r)) return asHandle(kPlain);  // what was captured is in its graph already
  const uint64_t now = ring::nowNs();
  const auto& c = d.ce_coll;
  return asHandle(
      g_launches.begin({now,
                        streamId(c.stream),
                        {},
                        true,
                        ring::OperationRecord{.function = r.intern(c.function),
                                              .start = now,
                                              .comm = comm.hash,
                                              .sequence = call.number == Call::kNoNumber ? ring::kUnknown : call.number,
                                              .elements = c.count,
                                              .rank = comm.rank,
                                              .ranks = static_cast<uint32_t>(comm.ranks),
                                              .datatype = indexOf(kDatatypes, c.datatype),
                                              .root = c.root,
                                              .stack = call.stack},
                        nullptr,
                        0}));
}

void writeGroup(RingWriter& r, const Call& group, bool ended) {
  if (recording(r) && r.header().wants.load(std::memory_order_relaxed) & ring::kWantGroups)
    r.write(encode(ring::GroupRecord{.ended = ended, .start = ring::nowNs(), .number = group.number}));
}
uint64_t groupOf(const Call& c) { return c.kind == kCallHandle || c.number == Call::kNoNumber ? 0 : c.number; }

/// NCCL reports a group with its first call. Depth 1 means that NCCL made the group itself, for a single call.
Call beginGroup(RingWriter& r, bool captured, int depth) {
  const Call group = {.kind = depth > 1 ? kOwnGroupHandle : kGroupHandle,
                      .captured = captured,
                      .number = 1 + g_groups.fetch_add(1, std::memory_order_relaxed)};
  if (group.kind == kOwnGroupHandle) writeGroup(r, group, false);
  return group;
}

/// The program calls a collective.
Call called(RingWriter& r, Comm& comm, uint64_t group) {
  const uint64_t number = nextNumber(comm);
  setGroup(comm, number, static_cast<uint32_t>(group));
  return {.number = number, .stack = callStack(r)};
}

template <int kVersion>
int startEvent(void* context, void** handle, void* descriptor) {
  *handle = nullptr;  // first: NCCL keeps stale handles otherwise
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  if (!r || !context || !descriptor) return 0;
  auto& comm = *static_cast<Comm*>(context);
  const auto& d = *static_cast<const Descriptor*>(descriptor);
  const uint64_t type = kVersion >= 5 ? d.type : d.type & 0xff;
  if (type == kGroup) *handle = asHandle(kPlain);  // before 2.28 its children are reported only if it is not NULL
  if (kVersion >= 5 && type == kGroupApi)
    *handle = asHandle(handleOf(beginGroup(*r, d.group_api.graph_captured, d.group_api.depth)));
  const uint64_t group = kVersion >= 5 ? groupOf(callOf(fromHandle(d.parent))) : 0;
  if (kVersion >= 5 && type == kP2pApi)
    *handle = asHandle(
        handleOf(d.p2p_api.graph_captured
                     ? captured(*r, comm, d, true)
                     : Call{.number = group ? group : Call::kNoNumber, .stack = callStack(*r), .grouped = group != 0}));
  if (kVersion >= 5 && type == kCollApi)
    *handle = asHandle(handleOf(d.coll_api.graph_captured ? captured(*r, comm, d, false) : called(*r, comm, group)));
  if (type == kColl || type == kP2p) {  // counted even while nobody records
    Operation o = type == kColl ? collective<kVersion>(comm, d) : p2p<kVersion>(comm, d);
    const bool wanted = !o.record.captured || recordsCaptured(comm, o.record, o.function, callOf(fromHandle(d.parent)));
    if (!wanted || !recording(*r)) return 0;
    if (kVersion < 5) o.record.stack = callStack(*r);  // the call that launches it: NCCL reports no other
    write(*r, o);
    *handle = asHandle(kPlain);
    return 0;
  }
  const bool in_graph = callOf(fromHandle(d.parent)).captured;
  if (kVersion >= 5 && type == kKernelLaunch && in_graph) captureKernel(d.kernel_launch.stream, &comm);
  if (kVersion >= 6 && type == kCeColl) *handle = beginCopies(*r, comm, d);
  if (!recording(*r)) return 0;
  if (kVersion >= 5 && type == kKernelLaunch) {
    const Call calls = callOf(fromHandle(d.parent));
    void* stream = d.kernel_launch.stream;
    const uint64_t now = ring::nowNs();
    const uint32_t events = beginEvents(*r, stream, calls.captured);
    const uint64_t launch = g_launches.begin({now, streamId(stream), calls, false, {}, stream, events});
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
      if (Launch launch; g_launches.end(h, launch)) {
        r->write(encode(ring::LaunchRecord{.start = launch.start,
                                           .end = ring::nowNs(),
                                           .stream = launch.stream,
                                           .captured = launch.group.captured,
                                           .group = groupOf(launch.group),
                                           .copies = launch.copies,
                                           .number = endEvents(launch.events, launch.handle)}));
        if (launch.copies) r->write(encode(launch.operation));
      }
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
TS_PLUGIN(6, initV5, 6);
TS_PLUGIN(7, initV5, 6);
