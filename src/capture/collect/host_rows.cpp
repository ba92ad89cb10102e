// Operations of libraries that use no device, process groups, and what CUDA graphs were captured from, as rows.
#include "capture/collect/process.hpp"
#include "model/hook_names.hpp"
#include "model/operation.hpp"

namespace tracesmith::capture {

using namespace tracesmith::trace;

void Collector::hostOperation(Process& p, const ring::HostOperationRecord& o) {
  constexpr size_t kMostOpen = 4096;  // a ring is its user's word
  const std::tuple key(o.group, o.op, o.sequence, o.peer);
  if (o.end == 0) {
    if (p.open_operations.size() < kMostOpen) p.open_operations.insert_or_assign(key, o);
    return;
  }
  p.open_operations.erase(key);
  if (o.end >= since_ns_ && o.end > o.start) hostOperationRow(p, o);  // without a length it was none
}

/// One that has not ended has no times: it is in flight.
void Collector::hostOperationRow(Process& p, const ring::HostOperationRecord& o) {
  CollectiveRow row;
  if (o.end != 0) {
    row.ts = static_cast<int64_t>(o.start);
    row.dur = static_cast<int64_t>(o.end - o.start);
    row.name = name(p, o.backend);
  }
  row.ts_enqueue = static_cast<int64_t>(o.start);
  row.step = p.stepAt(o.start, false);
  const std::string_view function = p.ring->string(o.op);
  const model::OpKind op = model::opKindOf(function);
  row.op = writer_.string(model::opNameOf(function));
  row.comm = name(p, o.group);
  if (o.sequence != ring::kUnknown) row.seq = static_cast<int64_t>(o.sequence);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  if (o.rank >= 0) row.group_rank = o.rank;
  if (o.ranks > 0) row.group_size = o.ranks;
  if (o.bytes != ring::kUnknown) row.bytes = static_cast<int64_t>(o.bytes);
  row.dtype = name(p, o.dtype);
  if (o.peer >= 0 && (isPair(op) || isRooted(op))) row.peer = o.peer;
  append(row);
  ++stats_.collectives;
  if (sum_up_steps_ && row.step != kNull && row.dur != kNull) {
    StepStats& s = stats_.steps[row.step][p.ring->header().rank.load()];
    ++s.collectives;
    s.communicating_ns += static_cast<uint64_t>(row.dur);
  }
}

size_t Collector::giveUpHostOperations(Process& p) {
  for (const auto& [key, o] : p.open_operations) hostOperationRow(p, o);
  return std::exchange(p.open_operations, {}).size();
}

void Collector::processGroupRow(Process& p, const ring::ProcessGroupRecord& g) {
  GroupRow row;
  row.node = p.node;
  row.rank = p.rank();
  row.comm = name(p, g.name);
  row.description = name(p, g.description);
  row.backend = name(p, g.backend);
  if (g.size > 0) row.size = g.size;
  if (g.ranks) row.ranks = out_->text(p.ring->string(g.ranks));
  append(row);
}

void Collector::graphNodeRow(Process& p, const ring::GraphNodeRecord& n) {
  GraphNodeRow row;
  row.ts = static_cast<int64_t>(n.start);
  row.node = p.node;
  row.rank = p.rank();
  row.pid = p.pid();
  if (n.thread) row.tid = n.thread;
  if (n.graph) row.graph = n.graph;
  row.graph_node = static_cast<int64_t>(n.node);
  if (std::string_view module = p.ring->string(n.modules); !module.empty()) {
    row.modules = name(p, n.modules);
    row.phase = writer_.string(n.backward ? "backward" : "forward");
    if (size_t at = module.rfind(model::kInside); at != module.npos) module.remove_prefix(at + model::kInside.size());
    row.module = writer_.string(module.substr(0, module.rfind(" (")));  // without its class
  }
  row.op = name(p, n.op);
  row.shapes = name(p, n.shapes);
  append(row);
}

}  // namespace tracesmith::capture
