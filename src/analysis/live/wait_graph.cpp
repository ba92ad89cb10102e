#include "analysis/live/wait_graph.hpp"

#include <algorithm>
#include <set>

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kLongNs = 1'000'000'000;  // before nobody asks what an operation waits for

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
  if (auto it = passed_.find({comm, op}); it != passed_.end() && it->second >= seq) return true;
  if (!endsTogether(op)) return false;
  auto it = ended_.find({comm, op});
  return it != ended_.end() && it->second >= seq;
}

void WaitGraph::findEnded() {
  for (const auto& [comm, members] : comms_)
    for (const Member& m : members)
      for (const OpProgress& o : m.state->ops)
        if (o.completed && endsTogether(o.op)) {
          uint64_t& last = ended_[{comm, o.op}];
          last = std::max(last, *o.completed);
        }
}

/// CUPTI keeps the end of a kernel to itself while another one in the same buffer goes on, so that all ranks of a job
/// that stands still may seem to be in an operation that is over. But what all have launched, with one size, and where
/// nobody has to come past an operation that cannot end, ends.
void WaitGraph::findPassed() {
  struct Seen {
    const InFlight* op;
    size_t ranks = 0;
    bool blocked = false;
  };
  std::map<Key, size_t> numbers;
  std::vector<Seen> seen;
  std::vector<std::vector<size_t>> queues(ranks_.size());  // what a rank has launched, oldest first
  bool waits = false;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<const InFlight*> ops;
    for (const InFlight& f : ranks_[r].process->in_flight) {
      waits |= f.age_ns >= kLongNs;
      if (f.peer >= 0 || !hasEnded({f.comm, f.op, f.seq})) ops.push_back(&f);
    }
    std::stable_sort(ops.begin(), ops.end(),
                     [](const InFlight* a, const InFlight* b) { return a->age_ns > b->age_ns; });
    for (const InFlight* f : ops) {
      // Which send a receive belongs to is not known: nothing is said about what comes after it.
      const Key key{f->comm, f->op, f->peer < 0 ? f->seq : UINT64_MAX};
      const size_t n = numbers.try_emplace(key, seen.size()).first->second;
      if (n == seen.size()) seen.push_back({f});
      ++seen[n].ranks;
      seen[n].blocked |= f->peer >= 0 || f->bytes != seen[n].op->bytes;
      queues[r].push_back(n);
    }
  }
  if (!waits) return;
  for (Seen& s : seen) s.blocked |= static_cast<int32_t>(s.ranks) < comms_[s.op->comm].front().state->size;
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::vector<size_t>& queue : queues) {
      bool behind = false;
      for (size_t n : queue) {
        changed |= behind && !seen[n].blocked;
        seen[n].blocked |= behind;
        behind |= seen[n].blocked;
      }
    }
  }
  // Where nothing is blocked an operation simply goes on.
  for (const std::vector<size_t>& queue : queues) {
    if (queue.empty() || !seen[queue.back()].blocked) continue;
    for (size_t n : queue)
      if (!seen[n].blocked) {
        uint64_t& last = passed_[{seen[n].op->comm, seen[n].op->op}];
        last = std::max(last, seen[n].op->seq);
      }
  }
}

/// What the streams of a rank are at. Its own records come late: what another rank saw end is over, and everything
/// launched before that on the same stream.
void WaitGraph::findHeads(size_t rank) {
  std::map<uint32_t, std::vector<const InFlight*>> streams;
  for (const InFlight& f : ranks_[rank].process->in_flight) streams[f.stream].push_back(&f);
  for (const auto& [stream, queue] : streams) {
    size_t first = 0;
    for (size_t i = 0; i < queue.size(); ++i)
      if (queue[i]->peer < 0 && hasEnded({queue[i]->comm, queue[i]->op, queue[i]->seq})) first = i + 1;
    if (first == queue.size()) continue;
    heads_[rank].push_back(queue[first]);
    // Sends and receives of one group run together.
    for (size_t i = first + 1; i < queue.size() && queue[first]->head && queue[i]->head; ++i)
      heads_[rank].push_back(queue[i]);
  }
}

bool WaitGraph::isHead(size_t rank, const InFlight& f) const {
  return std::find(heads_[rank].begin(), heads_[rank].end(), &f) != heads_[rank].end();
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
    if ((o.completed && *o.completed >= seq) || (o.entered >= seq && hasEnded(key))) return true;
    if (o.entered < seq) return false;
  }
  for (const InFlight& f : ranks_[member.rank].process->in_flight)
    if (f.comm == comm && f.op == op && f.seq == seq) return isHead(member.rank, f) && standsIn(member.rank, f);
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
  const int64_t waits = f.head ? f.wait_ns : f.age_ns;
  op.waiting_ns.push_back(std::min(waits, ranks_[rank].process->quiet_ns.value_or(waits)));
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
      if (theirs.comm == f.comm && theirs.op == other && theirs.peer == own && isHead(peer->rank, theirs) &&
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
  findEnded();
  findPassed();
  std::map<Key, std::vector<std::pair<size_t, const InFlight*>>> collectives;
  std::vector<std::pair<size_t, const InFlight*>> transfers;
  oldest_.assign(ranks_.size(), nullptr);
  heads_.resize(ranks_.size());
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].gone()) continue;
    findHeads(r);
    const InFlight*& oldest = oldest_[r];
    for (const InFlight* f : heads_[r])
      if (!oldest || f->age_ns > oldest->age_ns) oldest = f;
    for (const InFlight* f : heads_[r]) {
      if (f->stream != oldest->stream) continue;
      if (f->peer >= 0)
        transfers.push_back({r, f});
      else
        collectives[{f->comm, f->op, f->seq}].push_back({r, f});
    }
  }
  for (const auto& [key, waiting] : collectives) addCollective(key, waiting);
  for (const auto& [rank, f] : transfers) addTransfer(rank, *f);
  waits_.resize(ranks_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    for (size_t r : ops_[i].waiting) waits_[r].push_back(i);
}

}  // namespace tracesmith::analysis::live
