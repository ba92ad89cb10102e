#include "analysis/unfinished.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "trace/layout.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr int64_t kLeastWaitNs = 2'000'000'000;
constexpr int64_t kWaits = 3;  // times the longest one that ended

using Key = std::tuple<uint32_t, OpKind, int64_t>;  // communicator, operation, number

struct Operation {
  uint32_t op = kNoName;
  std::set<int64_t> ranks;  // that launched it
  int32_t group_size = -1;
  int64_t last_enqueue = kNull;
  std::string last_node;  // of the one that came last

  void add(const Part& p, std::string_view node) {
    ranks.insert(p.process);
    group_size = std::max(group_size, p.group_size);
    if (p.enqueue == kNull || p.enqueue <= last_enqueue) return;
    last_enqueue = p.enqueue;
    last_node = node;
  }
};

Key keyOf(const Part& p) { return {p.comm, p.op, p.seq}; }

/// The last time anything of this table was recorded on a node, raw clock; zones say it where a block is of one node.
template <typename Row>
int64_t endOf(const Reader& reader, const Names& names, std::string_view node, int node_column, int ts_column) {
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
      if (times.valid(r) && times.data<int64_t>()[r] > end && is(slotAt(nodes, Kind::Str, r)))
        end = times.data<int64_t>()[r];
  }
  return end;
}

}  // namespace

std::optional<Unfinished> findUnfinished(const Reader& reader, const Names& names, const PartTable& table,
                                         int world_size) {
  std::map<Key, Operation> open;
  for (const OpenPart& o : table.open) {
    Operation& operation = open[keyOf(o.part)];
    operation.op = o.op;
    operation.add(o.part, names.text(o.node));
  }
  if (open.empty()) return {};
  for (const Part& p : table.parts) {
    if (p.process < 0) continue;
    auto it = open.find(keyOf(p));
    if (it == open.end()) continue;
    auto node = table.node_of.find(p.process);
    it->second.add(p, node == table.node_of.end() ? std::string_view() : node->second);
  }
  const Key* first = nullptr;
  const Operation* found = nullptr;
  for (const auto& [key, o] : open) {
    // Which send belongs to which receive their numbers do not say.
    const OpKind op = std::get<1>(key);
    if (op == OpKind::send || op == OpKind::recv || o.last_enqueue == kNull) continue;
    if (o.group_size < 0 || static_cast<int64_t>(o.ranks.size()) >= o.group_size) continue;
    if (!found || o.last_enqueue < found->last_enqueue) {
      first = &key;
      found = &o;
    }
  }
  if (!found) return {};
  const int64_t end = std::max(endOf<EventRow>(reader, names, found->last_node, events::node, events::ts),
                               endOf<MetricRow>(reader, names, found->last_node, metrics::node, metrics::ts));
  Unfinished out;
  if (end == kNull) return {};
  out.waited_ns = end - found->last_enqueue;
  if (out.waited_ns < std::max(kLeastWaitNs, kWaits * table.longest_ns)) return {};
  const uint32_t comm = std::get<0>(*first);
  out.comm = names.text(comm);
  out.op = names.text(found->op);
  out.seq = std::get<2>(*first);
  out.entered.assign(found->ranks.begin(), found->ranks.end());
  // Who is missing is known where the communicator is the whole job; else from whom it had before.
  std::set<int64_t> members;
  for (const Part& p : table.parts)
    if (p.comm == comm && p.process >= 0) members.insert(p.process);
  for (const OpenPart& o : table.open)
    if (o.part.comm == comm) members.insert(o.part.process);
  if (found->group_size == world_size)
    for (int64_t r = 0; r < world_size; ++r) members.insert(r);
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
  verdict.cause = "hang";
  verdict.cost_pct = kUnknown;
  verdict.confidence = seen ? 0.9 : 0.5;
  verdict.text = "the job hangs: " + (op.missing.empty() ? "somebody" : list(op.missing, true)) + " never came to " +
                 op.op + " " + std::to_string(op.seq) + " of " + op.comm + (seen ? "" : ", or was not recorded") +
                 "; " + list(op.entered, false) + (op.entered.size() == 1 ? " waits" : " wait") + " in it for " +
                 humanNs(static_cast<double>(op.waited_ns)) + " when the recording ends";
  verdict.next =
      "what its process does: its stack (py-spy dump, gdb), whether it is stopped (/proc/PID/status), its log";
}

}  // namespace tracesmith::analysis
