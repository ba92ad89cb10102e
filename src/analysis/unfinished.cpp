#include "analysis/unfinished.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/each_row.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr int64_t kLeastWaitNs = 2'000'000'000;
constexpr int64_t kWaits = 3;  // times the longest one that ended

struct Operation {
  std::set<int64_t> ranks;  // that launched it
  int64_t group_size = kNull;
  int64_t last_enqueue = INT64_MIN;
  int64_t last_node = kNull;  // of the one that came last
  bool waited = false;        // it has not ended on some rank
};

/// The last time anything was recorded on each node, raw clock.
Result<std::map<int64_t, int64_t>> endsOf(const Reader& reader, const Names& names) {
  std::map<int64_t, int64_t> ends;
  auto add = [&](int64_t node, int64_t ts) {
    if (ts != kNull) ends.try_emplace(node, ts).first->second = std::max(ends[node], ts);
  };
  TS_TRY(eachRow<EventRow>(reader, names, {events::node, events::ts},
                           [&](const EventRow& row, auto&&) { add(row.node, row.ts); }));
  TS_TRY(eachRow<MetricRow>(reader, names, {metrics::node, metrics::ts},
                            [&](const MetricRow& row, auto&&) { add(row.node, row.ts); }));
  return ends;
}

}  // namespace

Result<std::optional<Unfinished>> findUnfinished(const Reader& reader, const Names& names, int world_size) {
  using Key = std::tuple<int64_t, int64_t, int64_t>;  // communicator, operation, number
  std::map<Key, Operation> open;
  int64_t longest = 0;
  TS_TRY(eachRow<CollectiveRow>(reader, names,
                                {collectives::ts, collectives::dur, collectives::comm, collectives::op,
                                 collectives::seq, collectives::rank, collectives::peer},
                                [&](const CollectiveRow& row, auto&&) {
                                  if (row.dur != kNull) longest = std::max(longest, row.dur);
                                  if (row.ts == kNull && row.comm != kNull && row.seq != kNull && row.rank != kNull &&
                                      row.op != kNull)
                                    open[{row.comm, row.op, row.seq}];
                                }));
  if (open.empty()) return std::optional<Unfinished>();
  TS_TRY(
      eachRow<CollectiveRow>(reader, names,
                             {collectives::ts, collectives::comm, collectives::op, collectives::seq, collectives::rank,
                              collectives::node, collectives::group_size, collectives::ts_enqueue},
                             [&](const CollectiveRow& row, auto&&) {
                               auto it = row.rank == kNull ? open.end() : open.find({row.comm, row.op, row.seq});
                               if (it == open.end()) return;
                               Operation& o = it->second;
                               o.ranks.insert(row.rank);
                               o.group_size = std::max(o.group_size, row.group_size);
                               o.waited |= row.ts == kNull;
                               if (row.ts_enqueue != kNull && row.ts_enqueue > o.last_enqueue) {
                                 o.last_enqueue = row.ts_enqueue;
                                 o.last_node = row.node;
                               }
                             }));
  const Key* first = nullptr;
  const Operation* found = nullptr;
  for (const auto& [key, o] : open) {
    const std::string_view op = names.text(static_cast<uint32_t>(std::get<1>(key)));
    // Which send belongs to which receive their numbers do not say.
    if (op == "send" || op == "recv" || !o.waited || o.last_enqueue == INT64_MIN) continue;
    if (o.group_size == kNull || static_cast<int64_t>(o.ranks.size()) >= o.group_size) continue;
    if (!found || o.last_enqueue < found->last_enqueue) {
      first = &key;
      found = &o;
    }
  }
  if (!found) return std::optional<Unfinished>();
  auto ends = endsOf(reader, names);
  if (!ends) return ends.status();
  Unfinished out;
  out.waited_ns = (*ends)[found->last_node] - found->last_enqueue;
  if (out.waited_ns < std::max(kLeastWaitNs, kWaits * longest)) return std::optional<Unfinished>();
  out.comm = names.text(static_cast<uint32_t>(std::get<0>(*first)));
  out.op = names.text(static_cast<uint32_t>(std::get<1>(*first)));
  out.seq = std::get<2>(*first);
  out.entered.assign(found->ranks.begin(), found->ranks.end());
  // Who is missing is known where the communicator is the whole job; else from whom it had before.
  std::set<int64_t> members;
  TS_TRY(eachRow<CollectiveRow>(reader, names, {collectives::comm, collectives::rank},
                                [&](const CollectiveRow& row, auto&&) {
                                  if (row.comm == std::get<0>(*first) && row.rank != kNull) members.insert(row.rank);
                                }));
  if (found->group_size == world_size)
    for (int64_t r = 0; r < world_size; ++r) members.insert(r);
  std::set_difference(members.begin(), members.end(), found->ranks.begin(), found->ranks.end(),
                      std::back_inserter(out.missing));
  return std::optional<Unfinished>(std::move(out));
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
