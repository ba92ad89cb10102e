// What the records of a ring say about operations of libraries that use no device (gloo, MPI), and about the process
// groups of a program.
#pragma once

#include "model/ring/nccl_records.hpp"

namespace tracesmith::ring {

/// It begins (end = 0), and once more when it has ended; with no length if it turned out to be none.
struct HostOperationRecord {
  uint32_t op = 0, group = 0, backend = 0, dtype = 0;  // texts
  uint64_t start = 0, end = 0;
  uint64_t sequence = kUnknown;  // counts the operations of the group; of a pair those with this peer
  uint64_t bytes = kUnknown;
  int32_t rank = -1;   // in the group; −1: not known
  uint32_t ranks = 0;  // of the group; 0: not known
  int32_t peer = -1;   // of a pair; root of a rooted operation; 16 bits
};
[[gnu::always_inline]] constexpr Record encode(const HostOperationRecord& o) {
  return {Kind::host_operation,
          0,
          words::rank16(o.peer),
          o.op,
          o.start,
          o.end,
          o.ranks,
          static_cast<uint32_t>(o.rank) + 1,
          {words::pair(o.group, o.backend), o.sequence, o.bytes, o.dtype}};
}
constexpr HostOperationRecord hostOperationOf(const Record& r) {
  return {.op = r.name,
          .group = words::low(r.arg[0]),
          .backend = words::high(r.arg[0]),
          .dtype = words::low(r.arg[3]),
          .start = r.start,
          .end = r.end,
          .sequence = r.arg[1],
          .bytes = r.arg[2],
          .rank = static_cast<int32_t>(r.stream - 1),
          .ranks = r.correlation,
          .peer = words::rankOf(r.device)};
}

struct ProcessGroupRecord {
  uint32_t name = 0, description = 0, backend = 0, ranks = 0;  // texts; ranks: a JSON array
  uint64_t start = 0;
  uint32_t size = 0;  // 0: not known
};
[[gnu::always_inline]] constexpr Record encode(const ProcessGroupRecord& g) {
  return {
      Kind::process_group, 0, 0, g.name, g.start, 0, g.size, 0, {words::pair(g.description, g.backend), g.ranks, 0, 0}};
}
constexpr ProcessGroupRecord processGroupOf(const Record& r) {
  return {.name = r.name,
          .description = words::low(r.arg[0]),
          .backend = words::high(r.arg[0]),
          .ranks = words::low(r.arg[1]),
          .start = r.start,
          .size = r.correlation};
}

/// A node of a CUDA graph was made: while a stream was captured, or as a copy of one that was.
struct GraphNodeRecord {
  uint64_t node = 0;     // CUPTI's ids
  uint32_t graph = 0;    // 0: not known
  uint32_t modules = 0;  // text: titles of the modules that ran, the outermost first, with model::kInside between
  bool backward = false;
  uint32_t op = 0, shapes = 0;  // texts
  uint64_t start = 0;
  uint32_t thread = 0;
};
[[gnu::always_inline]] constexpr Record encode(const GraphNodeRecord& n) {
  return {Kind::graph_node,
          static_cast<uint8_t>(n.backward ? kBackward : 0),
          0,
          n.modules,
          n.start,
          0,
          n.graph,
          0,
          {n.node, words::pair(n.op, n.shapes), 0, n.thread}};
}
constexpr GraphNodeRecord graphNodeOf(const Record& r) {
  return {.node = r.arg[0],
          .graph = r.correlation,
          .modules = r.name,
          .backward = (r.flags & kBackward) != 0,
          .op = words::low(r.arg[1]),
          .shapes = words::high(r.arg[1]),
          .start = r.start,
          .thread = words::low(r.arg[3])};
}

}  // namespace tracesmith::ring
