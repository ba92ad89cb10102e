// What the records of a ring say about NCCL: communicators, operations, launches, groups of calls, transfers.
#pragma once

#include "model/ring/records.hpp"

namespace tracesmith::ring {

/// A communicator this process takes part in.
struct CommRecord {
  uint64_t hash = 0;  // the same on all its ranks
  uint32_t name = 0;
  uint64_t start = 0;
  int32_t rank = 0, ranks = 0, nodes = 0;
};
[[gnu::always_inline]] constexpr Record encode(const CommRecord& c) {
  return {Kind::comm,
          0,
          0,
          c.name,
          c.start,
          0,
          0,
          0,
          {c.hash, words::pair(static_cast<uint32_t>(c.rank), static_cast<uint32_t>(c.ranks)),
           static_cast<uint64_t>(static_cast<uint32_t>(c.nodes)), 0}};
}
constexpr CommRecord commOf(const Record& r) {
  return {r.arg[0],
          r.name,
          r.start,
          static_cast<int32_t>(words::low(r.arg[1])),
          static_cast<int32_t>(words::high(r.arg[1])),
          static_cast<int32_t>(words::low(r.arg[2]))};
}

namespace words {
/// A rank in 16 bits; the largest value stands for none.
[[gnu::always_inline]] constexpr uint16_t rank16(int32_t rank) {
  return rank >= 0 && rank < UINT16_MAX ? static_cast<uint16_t>(rank) : UINT16_MAX;
}
constexpr int32_t rankOf(uint16_t v) { return v == UINT16_MAX ? -1 : v; }
}  // namespace words

/// A collective, or (pair) a send or receive, as NCCL enqueues it.
struct OperationRecord {
  bool pair = false;
  uint32_t function = 0;  // "AllReduce"
  uint64_t start = 0;
  uint64_t comm = 0;  // hash of its communicator; 0: not known
  // Counts the collectives of the communicator, whatever their function; of a pair those with this peer in this
  // direction. 48 bits.
  uint64_t sequence = kUnknown;
  uint64_t elements = 0;              // 48 bits
  uint64_t nccl_sequence = kUnknown;  // of a collective NCCL's own number, which counts each function by itself
  int32_t rank = -1;                  // in the communicator; −1: not known
  uint32_t ranks = 0;                 // of the communicator; 0: not known
  int32_t peer = -1;                  // of a pair: the other's rank in the communicator; 16 bits
  uint16_t datatype = 0;
  uint8_t algo = 0, proto = 0;  // indexes in the lists of nccl_names.hpp; 0: not known
  uint16_t channels = 0;        // 0: not known
  int32_t root = -1;            // 16 bits
  bool captured = false;        // into a CUDA graph: it runs, any number of times, when the graph does
  uint32_t launch = 0;          // number of the launch it is in, if that is timed; not in the record: readers set it
  uint32_t stack = 0;           // text of who called it: return addresses, the innermost first; 0: nobody asked
  uint32_t group = 0;           // low bits of the number of the group of calls it is in; 0: not known
};
[[gnu::always_inline]] constexpr Record encode(const OperationRecord& o) {
  const uint64_t nccl = words::to48(o.nccl_sequence);
  return {o.pair ? Kind::p2p : Kind::collective,
          static_cast<uint8_t>(o.captured ? kCaptured : 0),
          static_cast<uint16_t>(o.pair ? words::rank16(o.peer) : nccl),
          o.function,
          o.start,
          words::pair(o.stack, o.group),
          o.ranks,
          static_cast<uint32_t>(o.rank) + 1,
          {o.comm, words::to48(o.sequence) | nccl >> 16 << 48, words::to48(o.elements) | nccl >> 32 << 48,
           o.datatype | static_cast<uint64_t>(o.algo) << 16 | static_cast<uint64_t>(o.proto) << 24 |
               static_cast<uint64_t>(o.channels) << 32 | static_cast<uint64_t>(words::rank16(o.root)) << 48}};
}
constexpr bool isOperation(Kind kind) { return kind == Kind::collective || kind == Kind::p2p; }
constexpr OperationRecord operationOf(const Record& r) {
  const bool pair = r.kind == Kind::p2p;
  return {.pair = pair,
          .function = r.name,
          .start = r.start,
          .comm = r.arg[0],
          .sequence = words::from48(r.arg[1]),
          .elements = words::from48(r.arg[2]),
          .nccl_sequence = pair ? kUnknown : words::from48(r.device | r.arg[1] >> 48 << 16 | (r.arg[2] >> 48) << 32),
          .rank = static_cast<int32_t>(r.stream - 1),
          .ranks = r.correlation,
          .peer = pair ? words::rankOf(r.device) : -1,
          .datatype = static_cast<uint16_t>(r.arg[3]),
          .algo = static_cast<uint8_t>(r.arg[3] >> 16),
          .proto = static_cast<uint8_t>(r.arg[3] >> 24),
          .channels = static_cast<uint16_t>(r.arg[3] >> 32),
          .root = words::rankOf(static_cast<uint16_t>(r.arg[3] >> 48)),
          .captured = (r.flags & kCaptured) != 0,
          .stack = words::low(r.end),
          .group = words::high(r.end)};
}

/// NCCL launches a kernel or (copies) copies; the operations after it on this lane are in it, or those of its group
/// that a thread of CUDA's tells of, before or after. Or the program launches a CUDA graph: then there is one for each
/// of the kernels of NCCL in it, and at least one. All have the same start, and no end: they are told before the call.
struct LaunchRecord {
  uint64_t start = 0, end = 0;
  uint32_t stream = 0;    // 0: not known
  bool captured = false;  // into a CUDA graph: nothing ran
  uint64_t group = 0;     // number of the group of calls it is for; 0: not known
  bool copies = false;
  bool graph = false;
  uint32_t exec = 0;             // of a graph: counts the executable graphs of the process, from 1
  uint32_t part = 0, parts = 0;  // of a graph: which of its NCCL kernels, in the order they were captured; how many
  uint32_t number = 0;           // of its LaunchTimeRecord; 0: there will be none
};
[[gnu::always_inline]] constexpr Record encode(const LaunchRecord& l) {
  return {Kind::nccl_launch,
          static_cast<uint8_t>((l.captured ? kCaptured : 0) | (l.copies ? kCopies : 0) | (l.graph ? kGraph : 0)),
          0,
          0,
          l.start,
          l.end,
          l.number,
          l.stream,
          {l.group, words::pair(l.part, l.parts), l.exec, 0}};
}
constexpr LaunchRecord launchOf(const Record& r) {
  return {.start = r.start,
          .end = r.end,
          .stream = r.stream,
          .captured = (r.flags & kCaptured) != 0,
          .group = r.arg[0],
          .copies = (r.flags & kCopies) != 0,
          .graph = (r.flags & kGraph) != 0,
          .exec = words::low(r.arg[2]),
          .part = words::low(r.arg[1]),
          .parts = words::high(r.arg[1]),
          .number = r.correlation};
}

/// When a launch ran on the GPU, measured by CUDA events around it and brought to our clock.
struct LaunchTimeRecord {
  uint32_t number = 0;
  uint64_t start = 0, end = 0;
  uint64_t bound = 0;  // both may be wrong by so much together, ns
};
[[gnu::always_inline]] constexpr Record encode(const LaunchTimeRecord& t) {
  return {Kind::nccl_time, 0, 0, 0, t.start, t.end, t.number, 0, {t.bound, 0, 0, 0}};
}
constexpr LaunchTimeRecord launchTimeOf(const Record& r) { return {r.correlation, r.start, r.end, r.arg[0]}; }

/// The program groups calls of NCCL: the first call of a group, or (ended) its end, when all of it is launched.
struct GroupRecord {
  bool ended = false;
  uint64_t start = 0;
  uint64_t number = 0;  // counts the groups of the process, from 1
};
[[gnu::always_inline]] constexpr Record encode(const GroupRecord& g) {
  return {Kind::nccl_group, 0, 0, 0, g.start, 0, 0, 0, {g.number, g.ended, 0, 0}};
}
constexpr GroupRecord groupOf(const Record& r) { return {r.arg[1] != 0, r.start, r.arg[0]}; }

/// What NCCL's proxy thread sends to or receives from one peer for an operation.
struct ProxyRecord {
  uint64_t comm = 0;
  uint64_t start = 0, end = 0;
  bool send = false;
  uint8_t channel = 0;
  int32_t peer = -1;
  uint32_t steps = 0;
  uint64_t bytes = kUnknown;
  // Parts of its time, ns; no moment is in two of them. Something is on the network; else a send waits for the peer's
  // credit; else all wait for the GPU.
  uint64_t net_wait = kUnknown, peer_wait = kUnknown, gpu_wait = kUnknown;
};
[[gnu::always_inline]] constexpr Record encode(const ProxyRecord& p) {
  const uint64_t net = words::to48(p.net_wait);
  return {Kind::proxy_op,
          static_cast<uint8_t>(p.send ? kSend : 0),
          p.channel,
          p.steps,
          p.start,
          p.end,
          static_cast<uint32_t>(p.peer),
          words::low(net),
          {p.comm, words::to48(p.bytes) | (net >> 32) << 48, words::to48(p.peer_wait), words::to48(p.gpu_wait)}};
}
constexpr ProxyRecord proxyOf(const Record& r) {
  return {.comm = r.arg[0],
          .start = r.start,
          .end = r.end,
          .send = (r.flags & kSend) != 0,
          .channel = static_cast<uint8_t>(r.device),
          .peer = static_cast<int32_t>(r.correlation),
          .steps = r.name,
          .bytes = words::from48(r.arg[1]),
          .net_wait = words::from48(r.stream | (r.arg[1] >> 48) << 32),
          .peer_wait = words::from48(r.arg[2]),
          .gpu_wait = words::from48(r.arg[3])};
}

}  // namespace tracesmith::ring
