#include "analysis/verdict/unfinished.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>

#include "base/text.hpp"
#include "trace/layout.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr int64_t kLeastWaitNs = 2'000'000'000;
constexpr int64_t kWaits = 3;  // times the longest one that ended

/// What is numbered by itself: a kind of operation of a communicator, or what one rank sends to another.
struct Kind {
  uint32_t comm = trace::kNoName;
  OpKind op = OpKind::other;
  int32_t from = -1, to = -1;
  auto operator<=>(const Kind&) const = default;
};
using Key = std::pair<Kind, int64_t>;  // and its number

Kind kindOf(const Part& p) {
  if (!isPair(p.op)) return {p.comm, p.op};
  return p.op == OpKind::send ? Kind{p.comm, OpKind::send, p.process, p.peer}
                              : Kind{p.comm, OpKind::send, p.peer, p.process};
}

struct Operation {
  uint32_t op = trace::kNoName;
  std::set<int64_t> ranks;  // that launched it
  int32_t group_size = -1;
  int64_t last_enqueue = kNull;  // reference clock
  std::string last_node;         // of the one that came last
  int64_t last_process = kNull;
  bool hidden = false;  // on some rank nobody knows whether it ended

  void add(const Part& p, int64_t enqueue, std::string_view node) {
    ranks.insert(p.process);
    group_size = isPair(p.op) ? 2 : std::max(group_size, p.group_size);
    if (enqueue == kNull || enqueue <= last_enqueue) return;
    last_enqueue = enqueue;
    last_node = node;
    last_process = p.process;
  }
};

/// The last time anything of this table was recorded on a node, raw clock; zones say it where a block is of one node.
template <typename Row>
int64_t endOf(const Reader& reader, const trace::NameNumbers& names, std::string_view node, int node_column,
              int ts_column) {
  int64_t end = kNull;
  BlockDecoder decoder(reader);
  ColumnData nodes, times;
  for (const Block* block : reader.blocks(tableOf<Row>())) {
    int64_t low, high, first, last;
    if (!block->zone(ts_column, first, last) || last <= end) continue;
    const bool named = block->zone(node_column, low, high);
    const ColumnEntry* entry = block->find(node_column);
    auto is = [&](int64_t id) { return names.text(names.of(block->stream, id)) == node; };
    if (!named || (low == high && entry->values == block->rows)) {
      if (named ? is(low) : node.empty()) end = last;
      continue;
    }
    if (!decoder.decode(*block, node_column, nodes) || !decoder.decode(*block, ts_column, times)) continue;
    for (uint32_t r = 0; r < block->rows; ++r)
      if (times.valid(r) && times.data<int64_t>()[r] > end && is(slotAt(nodes, trace::Kind::Str, r)))
        end = times.data<int64_t>()[r];
  }
  return end;
}

}  // namespace

std::optional<Unfinished> findUnfinished(const Reader& reader, const trace::NameNumbers& names, const JobData& job,
                                         std::optional<int> world_size) {
  const PartTable& table = job.table;
  std::map<Key, Operation> open;
  std::map<Kind, int64_t> ended;  // the last number
  for (const OpenPart& o : table.open) {
    // Which send belongs to which receive not all traces say.
    if (isPair(o.part.op) && (o.part.peer < 0 || !table.by_pair.contains(o.part.comm))) continue;
    if (o.hidden && o.part.correlation != kNull && o.part.op != OpKind::send) {
      auto [last, fresh] = ended.try_emplace(kindOf(o.part), o.part.seq);
      if (!fresh) last->second = std::max(last->second, o.part.seq);
    }
    Operation& operation = open[{kindOf(o.part), o.part.seq}];
    operation.op = o.op;
    operation.hidden |= o.hidden;
    const trace::ClockTable& clock = clockOf(job.clocks, table.domain(o.part.process));
    operation.add(o.part, o.part.enqueue == kNull ? kNull : clock.toReference(o.part.enqueue), names.text(o.node));
  }
  if (open.empty()) return {};
  // Only kinds that something is in flight of.
  for (const auto& [key, o] : open) ended.try_emplace(key.first, INT64_MIN);
  for (const Part& p : table.parts) {
    if (p.process < 0 || p.seq == kNull) continue;
    const Kind kind = kindOf(p);
    auto last = ended.find(kind);
    if (last == ended.end()) continue;
    // What was sent may still be on its way.
    if (p.op != OpKind::send) last->second = std::max(last->second, p.seq);
    if (auto it = open.find({kind, p.seq}); it != open.end()) {
      auto node = table.node_of.find(p.process);
      it->second.add(p, p.enqueue, node == table.node_of.end() ? std::string_view() : node->second);
    }
  }
  const Key* first = nullptr;
  const Operation* found = nullptr;
  const Key* first_stuck = nullptr;  // the same for those that all have come to
  const Operation* stuck = nullptr;
  for (const auto& [key, o] : open) {
    const Kind& kind = key.first;
    if (o.last_enqueue == kNull || o.group_size < 0) continue;
    // Recording began while it ran, or its record was lost: what came after it has ended.
    const int64_t last = ended[kind];
    if (last > key.second || (last == key.second && (isPair(kind.op) || endsTogether(kind.op)))) continue;
    if (static_cast<int64_t>(o.ranks.size()) >= o.group_size) {
      if (endsTogether(kind.op) && o.group_size > 1 && !o.hidden && (!stuck || o.last_enqueue < stuck->last_enqueue)) {
        first_stuck = &key;
        stuck = &o;
      }
      continue;
    }
    if (!found || o.last_enqueue < found->last_enqueue) {
      first = &key;
      found = &o;
    }
  }
  const bool nobody_missing = !found && stuck;
  if (nobody_missing) {
    first = first_stuck;
    found = stuck;
  }
  if (!found) return {};
  const int64_t end =
      std::max({endOf<EventRow>(reader, names, found->last_node, events::node, events::ts),
                endOf<EventSummaryRow>(reader, names, found->last_node, event_summaries::node, event_summaries::ts_end),
                endOf<MetricRow>(reader, names, found->last_node, metrics::node, metrics::ts)});
  Unfinished out;
  if (end == kNull) return {};
  int64_t since = found->last_enqueue;
  // A host may be far ahead of its GPU: what counts is how long nothing has ended.
  if (nobody_missing)
    for (const Part& p : table.parts) since = std::max(since, p.end);
  out.waited_ns = clockOf(job.clocks, table.domain(found->last_process)).toReference(end) - since;
  if (out.waited_ns < std::max(kLeastWaitNs, kWaits * table.longest_ns)) return {};
  const Kind& kind = first->first;
  out.comm = names.text(kind.comm);
  out.op = names.text(found->op);
  out.seq = first->second;
  out.entered.assign(found->ranks.begin(), found->ranks.end());
  out.all_entered = nobody_missing;
  if (nobody_missing) return out;
  if (isPair(kind.op)) {
    const bool sent = found->ranks.contains(kind.from);
    out.op = sent ? "recv" : "send";
    out.peer = sent ? kind.from : kind.to;
    out.missing = {sent ? kind.to : kind.from};
    return out;
  }
  // Who is missing is known where the communicator is the whole job; else from whom it had before.
  std::set<int64_t> members;
  for (const Part& p : table.parts)
    if (p.comm == kind.comm && p.process >= 0) members.insert(p.process);
  for (const OpenPart& o : table.open)
    if (o.part.comm == kind.comm) members.insert(o.part.process);
  if (found->group_size == world_size)
    for (int64_t r = 0; r < *world_size; ++r) members.insert(r);
  std::set_difference(members.begin(), members.end(), found->ranks.begin(), found->ranks.end(),
                      std::back_inserter(out.missing));
  return out;
}

void sayHang(const Unfinished& op, const JobData& job, Verdict& verdict) {
  constexpr size_t kMost = 8;
  auto list = [&](const std::vector<int64_t>& ranks, bool nodes) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (size_t i = 0; i < ranks.size() && i < kMost; ++i) {
      text += (i ? ", " : "") + std::to_string(ranks[i]);
      if (const std::string node = job.nodeOf(ranks[i]); nodes && !node.empty()) text += " on " + node;
    }
    return ranks.size() > kMost ? text + " and " + std::to_string(ranks.size() - kMost) + " more" : text;
  };
  const bool seen = !op.missing.empty() && std::all_of(op.missing.begin(), op.missing.end(),
                                                       [&](int64_t r) { return job.table.of_process.contains(r); });
  if (verdict.kind == VerdictKind::rank || verdict.kind == VerdictKind::link)
    verdict.also.insert(verdict.also.begin(), verdict.text);
  verdict.kind = VerdictKind::rank;
  verdict.rank = op.missing.size() == 1 ? op.missing[0] : kNull;
  verdict.node = op.missing.size() == 1 ? job.nodeOf(op.missing[0]) : "";
  verdict.group = op.comm;
  verdict.cause = Cause::hang;
  verdict.cost_pct = kUnknown;
  verdict.confidence = seen ? 0.9 : 0.5;
  verdict.next = adviceOf(Cause::hang);
  if (op.all_entered) {
    verdict.kind = VerdictKind::none;
    verdict.confidence = 0.8;
    verdict.text = "the job hangs: all " + std::to_string(op.entered.size()) + " ranks are in " + op.op + " " +
                   std::to_string(op.seq) + " of " + op.comm + " and nothing has ended for " +
                   humanNs(static_cast<double>(op.waited_ns)) + " at the end of the recording; nobody is missing";
    verdict.next =
        "look at what moves the data: links and network (tracesmith topo, tracesmith top), the GPUs (nvidia-smi, Xid "
        "messages in the kernel's log), NCCL's own log (NCCL_DEBUG=INFO)";
    return;
  }
  const std::string peer =
      op.peer == kNull ? "" : (op.op == "send" ? " to rank " : " from rank ") + std::to_string(op.peer);
  verdict.text = "the job hangs: " + (op.missing.empty() ? "somebody" : list(op.missing, true)) + " never arrived at " +
                 op.op + " " + std::to_string(op.seq) + peer + " of " + op.comm +
                 (seen ? "" : ", or was not recorded") + "; " + list(op.entered, false) +
                 (op.entered.size() == 1 ? " waits" : " wait") + " in it for " +
                 humanNs(static_cast<double>(op.waited_ns)) + " at the end of the recording";
  verdict.next = adviceOf(Cause::hang);
}

}  // namespace tracesmith::analysis
