#include "analysis/live/wait_graph.hpp"

#include <algorithm>

namespace tracesmith::analysis::live {
namespace {

/// Whether an operation ends on all ranks at once: then one that saw it end speaks for all.
bool endsTogether(const std::string& op) { return op != "broadcast" && op != "reduce" && op != "send" && op != "recv"; }

}  // namespace

void WaitGraph::add(const NodeReport& report, int64_t at_ns, int64_t silent_ns) {
  if (silent_ns != 0) now_ns_ = silent_ns;
  for (const ProcessReport& p : report.processes) {
    if (p.comms.empty()) continue;
    const size_t index = ranks_.size();
    ranks_.push_back({&p, report.node, at_ns, silent_ns != 0, p.rank});
    for (const CommState& c : p.comms) comms_[c.comm].push_back({index, &c});
  }
}

bool WaitGraph::hasEnded(const Key& key) const {
  const auto& [comm, op, seq] = key;
  if (!endsTogether(op)) return false;
  auto it = ended_.find({comm, op});
  return it != ended_.end() && it->second >= seq;
}

/// Whether a rank has come to what it launched: streams of other communicators may be ahead of it.
bool WaitGraph::standsIn(size_t rank, const InFlight& f) const {
  return rank >= oldest_.size() || !oldest_[rank] || oldest_[rank]->stream == f.stream;
}

/// Whether a rank runs this operation, or has run it.
bool WaitGraph::arrived(const Member& member, const Key& key) const {
  const auto& [comm, op, seq] = key;
  for (const OpProgress& o : member.state->ops) {
    if (o.op != op) continue;
    if (o.completed && *o.completed >= seq) return true;
    if (o.entered < seq) return false;
  }
  for (const InFlight& f : ranks_[member.rank].process->in_flight)
    if (f.comm == comm && f.op == op && f.seq == seq) return f.head && standsIn(member.rank, f);
  return false;  // never launched, or far behind in the queue
}

size_t WaitGraph::unknownRank(uint64_t comm, int32_t group_rank, int32_t rank) {
  auto [it, fresh] = unknown_.try_emplace({comm, group_rank}, ranks_.size());
  if (fresh) {
    Rank r;
    r.rank = rank;
    ranks_.push_back(r);
  }
  return it->second;
}

void WaitGraph::addWaiting(Op& op, size_t rank, const InFlight& f) const {
  op.waiting.push_back(rank);
  // While anything ends on its GPU the operation may be waiting for its own rank's work.
  op.waiting_ns.push_back(std::min(f.wait_ns, ranks_[rank].process->quiet_ns.value_or(f.wait_ns)));
  op.by_bytes[f.bytes].push_back(rank);
}

/// Since when ranks wait, and for how long they have for sure: a report tells about the past.
void WaitGraph::measure(Op& op) const {
  int64_t evidence = INT64_MAX, newest = 0, first = INT64_MAX, last = 0;
  for (size_t i = 0; i < op.waiting.size(); ++i) {
    const Rank& r = ranks_[op.waiting[i]];
    const int64_t since = r.at_ns - op.waiting_ns[i];
    first = std::min(first, since);
    last = std::max(last, since);
    newest = std::max(newest, r.at_ns);
    if (!r.silent) evidence = std::min(evidence, r.at_ns);
  }
  for (size_t m : op.missing)
    if (ranks_[m].process && !ranks_[m].silent) evidence = std::min(evidence, ranks_[m].at_ns);
  if (evidence == INT64_MAX) evidence = newest;
  op.since_ns = op.missing.empty() ? last : first;  // where all are there it takes the last one's time
  op.waited_ns = evidence - op.since_ns;
}

void WaitGraph::addCollective(const Key& key, const std::vector<std::pair<size_t, const InFlight*>>& waiting) {
  const auto& [comm, name, seq] = key;
  const std::vector<Member>& members = comms_[comm];
  Op op;
  op.comm = comm;
  op.op = name;
  op.seq = seq;
  op.bytes = waiting.front().second->bytes;
  op.first = true;
  std::vector<bool> known;
  for (const Member& m : members) {
    op.size = std::max(op.size, m.state->size);
    if (op.comm_name.empty()) op.comm_name = m.state->name;
    for (const OpProgress& o : m.state->ops) op.first &= !o.completed;
  }
  known.resize(static_cast<size_t>(std::clamp(op.size, 0, 1 << 20)));
  for (const auto& [rank, f] : waiting) addWaiting(op, rank, *f);
  bool is_world = false;
  for (const Member& m : members) {
    const auto g = static_cast<size_t>(m.state->group_rank);
    if (m.state->group_rank >= 0 && g < known.size()) known[g] = true;
    is_world |= ranks_[m.rank].process->world_size == op.size;
    (arrived(m, key) ? op.entered : op.missing).push_back(m.rank);
  }
  for (size_t g = 0; g < known.size(); ++g)
    if (!known[g])
      op.missing.push_back(unknownRank(comm, static_cast<int32_t>(g), is_world ? static_cast<int32_t>(g) : -1));
  measure(op);
  ops_.push_back(std::move(op));
}

void WaitGraph::addTransfer(size_t rank, const InFlight& f) {
  Op op;
  op.comm = f.comm;
  op.op = f.op;
  op.seq = f.seq;
  op.size = 2;
  op.bytes = f.bytes;
  addWaiting(op, rank, f);
  op.entered = {rank};
  const Member* peer = nullptr;
  int32_t own = -1, size = -1;
  for (const Member& m : comms_[f.comm]) {
    if (m.rank == rank) {
      own = m.state->group_rank;
      size = m.state->size;
      op.comm_name = m.state->name;
      op.first = true;
      for (const OpProgress& o : m.state->ops) op.first &= !o.completed;
    }
    if (m.state->group_rank == f.peer) peer = &m;
  }
  bool met = false;
  if (peer) {
    const std::string other = f.op == "send" ? "recv" : "send";
    for (const InFlight& theirs : ranks_[peer->rank].process->in_flight)
      if (theirs.comm == f.comm && theirs.head && theirs.op == other && theirs.peer == own &&
          standsIn(peer->rank, theirs)) {
        met = true;
        addWaiting(op, peer->rank, theirs);
        op.entered.push_back(peer->rank);
        break;
      }
    if (!met) op.missing.push_back(peer->rank);
  } else {
    const bool is_world = ranks_[rank].process->world_size == size;
    op.missing.push_back(unknownRank(f.comm, f.peer, is_world ? f.peer : -1));
  }
  measure(op);
  ops_.push_back(std::move(op));
}

void WaitGraph::build() {
  for (const auto& [comm, members] : comms_)
    for (const Member& m : members)
      for (const OpProgress& o : m.state->ops)
        if (o.completed && endsTogether(o.op)) {
          uint64_t& last = ended_[{comm, o.op}];
          last = std::max(last, *o.completed);
        }
  std::map<Key, std::vector<std::pair<size_t, const InFlight*>>> collectives;
  std::vector<std::pair<size_t, const InFlight*>> transfers;
  oldest_.assign(ranks_.size(), nullptr);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].gone()) continue;
    const InFlight*& oldest = oldest_[r];
    auto open = [&](const InFlight& f) { return f.head && (f.peer >= 0 || !hasEnded({f.comm, f.op, f.seq})); };
    for (const InFlight& f : ranks_[r].process->in_flight)
      if (open(f) && (!oldest || f.age_ns > oldest->age_ns)) oldest = &f;
    for (const InFlight& f : ranks_[r].process->in_flight) {
      if (!open(f) || f.stream != oldest->stream) continue;
      if (f.peer >= 0)
        transfers.push_back({r, &f});
      else
        collectives[{f.comm, f.op, f.seq}].push_back({r, &f});
    }
  }
  for (const auto& [key, waiting] : collectives) addCollective(key, waiting);
  for (const auto& [rank, f] : transfers) addTransfer(rank, *f);
  waits_.resize(ranks_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    for (size_t r : ops_[i].waiting) waits_[r].push_back(i);
}

}  // namespace tracesmith::analysis::live
