#include "analysis/live/wait_graph.hpp"

#include <algorithm>
#include <set>

#include "model/operation.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kLongNs = 1'000'000'000;  // before nobody asks what an operation waits for

/// Sends and receives of one group run together.
bool together(const InFlight& a, const InFlight& b) { return a.stream == b.stream && a.before == b.before; }

}  // namespace

void WaitGraph::add(const NodeReport& report, int64_t at_ns, int64_t silent_ns) {
  if (silent_ns != 0) now_ns_ = silent_ns;
  for (const ProcessReport& p : report.processes) {
    if (p.comms.empty()) continue;
    const size_t index = ranks_.size();
    ranks_.push_back({&p, report.node, at_ns - p.counted_ns.value_or(0), silent_ns != 0, p.rank});
    for (const CommState& c : p.comms) comms_[c.comm].push_back({index, &c});
  }
}

WaitGraph::Key WaitGraph::keyOf(size_t rank, const InFlight& f) const {
  if (f.peer < 0) return {{f.comm, f.op}, f.seq};
  int32_t own = -1;
  for (const CommState& c : ranks_[rank].process->comms)
    if (c.comm == f.comm) own = c.group_rank;
  return f.op == "send" ? Key{{f.comm, f.op, own, f.peer}, f.seq} : Key{{f.comm, f.op, f.peer, own}, f.seq};
}

bool WaitGraph::hasEnded(const Key& key) const {
  auto within = [&](const std::map<Kind, uint64_t>& numbers) {
    auto it = numbers.find(key.kind);
    return it != numbers.end() && it->second >= key.seq;
  };
  return within(passed_) || within(ended_);
}

/// Whether the other side of a receive has seen its send end.
bool WaitGraph::hasSent(const Key& key) const {
  auto it = sent_.find(key.kind);
  return it != sent_.end() && it->second >= key.seq;
}

void WaitGraph::findEnded() {
  auto raise = [](uint64_t& last, uint64_t number) { last = std::max(last, number); };
  for (const auto& [comm, members] : comms_)
    for (const Member& m : members)
      for (const OpProgress& o : m.state->ops) {
        if (!o.completed) continue;
        const int32_t own = m.state->group_rank;
        // Where all leave together, one that saw the end speaks for all.
        if (o.peer < 0 && endsTogether(model::opKind(o.op))) raise(ended_[{comm, o.op}], *o.completed);
        // What was received was sent; what was sent may wait for its receiver in a buffer.
        if (o.peer >= 0 && o.op == "recv") raise(ended_[{comm, "send", o.peer, own}], *o.completed);
        if (o.peer >= 0 && o.op == "send") raise(sent_[{comm, "recv", own, o.peer}], *o.completed);
      }
}

/// Where the GPU's work is not recorded, an operation that all have launched may have ended, and nothing is said about
/// it. One that somebody has not launched cannot have.
void WaitGraph::findUnseen() {
  struct Launched {
    Kind kind;
    uint64_t seq = 0;
    std::set<int64_t> sizes;
    bool seen = false;
  };
  std::map<Key, Launched> launched;
  for (size_t r = 0; r < ranks_.size(); ++r)
    for (const InFlight& f : ranks_[r].process->in_flight) {
      Key key = keyOf(r, f);
      if (f.peer >= 0) key.kind.op = "pair";
      Launched& l = launched[key];
      l.kind = key.kind;
      l.seq = f.seq;
      l.sizes.insert(f.bytes);
      l.seen |= !f.unseen;
    }
  for (const auto& [key, l] : launched) {
    if (l.seen || l.sizes.size() > 1) continue;
    const bool pair = l.kind.from >= 0 || l.kind.to >= 0;
    int32_t came = 0, size = pair ? 2 : -1;
    for (const Member& m : comms_[l.kind.comm]) {
      if (!pair) size = std::max(size, m.state->size);
      for (const OpProgress& o : m.state->ops) {
        const int32_t own = m.state->group_rank;
        const bool its = pair ? (o.op == "send" && own == l.kind.from && o.peer == l.kind.to) ||
                                    (o.op == "recv" && own == l.kind.to && o.peer == l.kind.from)
                              : o.peer < 0 && o.op == l.kind.op;
        came += its && o.entered >= l.seq;
      }
    }
    if (size < 0 || came < size) continue;
    for (const char* op : {"send", "recv"}) {
      Kind kind = l.kind;
      if (pair) kind.op = op;
      uint64_t& last = passed_[kind];
      last = std::max(last, l.seq);
    }
  }
}

/// CUPTI keeps the end of a kernel to itself while another one in the same buffer goes on, so that all ranks of a job
/// that stands still may seem to be in an operation that is over. But what all have launched, with one size, and where
/// nobody has to come past an operation that cannot end, ends.
void WaitGraph::findPassed() {
  struct Meeting {
    const InFlight* op;
    Key key;
    size_t ranks = 0;
    bool blocked = false, sent = false;
  };
  struct Launched {
    size_t meeting;
    const InFlight* op;
  };
  std::map<Key, size_t> numbers;
  std::vector<Meeting> meetings;
  std::vector<std::vector<Launched>> queues(ranks_.size());  // what a rank has launched, oldest first
  bool waits = false;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (const InFlight& f : ranks_[r].process->in_flight) {
      waits |= f.age_ns >= kLongNs;
      Key key = keyOf(r, f);
      if (hasEnded(key)) continue;
      const bool sent = f.peer >= 0 && hasSent(key);
      if (f.peer >= 0) key.kind.op = "pair";  // a send meets its receive
      const size_t n = numbers.try_emplace(key, meetings.size()).first->second;
      if (n == meetings.size()) meetings.push_back({&f, key});
      meetings[n].ranks += sent ? 2 : 1;
      meetings[n].sent |= sent;
      meetings[n].blocked |= f.bytes != meetings[n].op->bytes;
      queues[r].push_back({n, &f});
    }
    std::stable_sort(queues[r].begin(), queues[r].end(),
                     [](const Launched& a, const Launched& b) { return a.op->age_ns > b.op->age_ns; });
  }
  if (!waits) return;
  for (Meeting& m : meetings) {
    const int32_t size = m.op->peer >= 0 ? 2 : comms_[m.op->comm].front().state->size;
    m.blocked |= static_cast<int32_t>(m.ranks) < size;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::vector<Launched>& queue : queues) {
      bool behind = false, stuck = false;
      for (size_t i = 0; i < queue.size(); ++i) {
        // What is launched together does not wait for each other.
        if (i > 0 && !together(*queue[i - 1].op, *queue[i].op)) behind = stuck;
        bool& blocked = meetings[queue[i].meeting].blocked;
        changed |= behind && !blocked;
        blocked |= behind;
        stuck |= blocked;
      }
    }
  }
  auto pass = [this](const Kind& kind, uint64_t number) {
    uint64_t& last = passed_[kind];
    last = std::max(last, number);
  };
  for (const std::vector<Launched>& queue : queues) {
    const bool stands =
        std::any_of(queue.begin(), queue.end(), [&](const Launched& l) { return meetings[l.meeting].blocked; });
    for (const Launched& l : queue) {
      const Meeting& m = meetings[l.meeting];
      // Where nothing is blocked, and no other side saw it end, an operation simply goes on.
      if (m.blocked || (!stands && !m.sent)) continue;
      Kind kind = m.key.kind;
      if (l.op->peer >= 0) {
        pass({kind.comm, "send", kind.from, kind.to}, m.key.seq);
        kind.op = "recv";
      }
      pass(kind, m.key.seq);
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
    for (size_t i = 0; i < queue.size();) {
      bool over = true;  // all that was launched together
      const InFlight& launch = *queue[i];
      for (; i < queue.size() && together(launch, *queue[i]); ++i) over &= hasEnded(keyOf(rank, *queue[i]));
      if (over) first = i;
    }
    for (size_t i = first; i < queue.size() && together(*queue[first], *queue[i]); ++i)
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

/// Whether a rank runs this collective, or has run it.
bool WaitGraph::arrived(const Member& member, const Key& key) const {
  for (const OpProgress& o : member.state->ops) {
    if (o.op != key.kind.op || o.peer >= 0) continue;
    if ((o.completed && *o.completed >= key.seq) || (o.entered >= key.seq && hasEnded(key))) return true;
    if (o.entered < key.seq) return false;
  }
  for (const InFlight& f : ranks_[member.rank].process->in_flight)
    if (f.peer < 0 && f.comm == key.kind.comm && f.op == key.kind.op && f.seq == key.seq)
      return isHead(member.rank, f) && standsIn(member.rank, f);
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
  const int64_t waits = f.before == 0 ? f.wait_ns : f.age_ns;
  op.waiting_ns.push_back(std::min(waits, ranks_[rank].process->quiet_ns.value_or(waits)));
  op.by_bytes[f.bytes].push_back(rank);
  op.unseen |= f.unseen;
  op.counted |= ranks_[rank].process->counted_ns.has_value();
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
  const uint64_t comm = key.kind.comm;
  const std::vector<Member>& members = comms_[comm];
  Op op;
  op.comm = comm;
  op.op = key.kind.op;
  op.seq = key.seq;
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
  if (peer) {
    op.peer = static_cast<int32_t>(peer->rank);
    const std::string other = f.op == "send" ? "recv" : "send";
    bool met = f.op == "recv" && hasSent(keyOf(rank, f));
    if (met) op.entered.push_back(peer->rank);
    for (const InFlight& theirs : ranks_[peer->rank].process->in_flight) {
      if (met) break;
      if (theirs.comm != f.comm || theirs.op != other || theirs.peer != own || theirs.seq != f.seq) continue;
      if (!isHead(peer->rank, theirs) || !standsIn(peer->rank, theirs)) break;
      met = true;
      addWaiting(op, peer->rank, theirs);
      op.entered.push_back(peer->rank);
    }
    if (!met) op.missing.push_back(peer->rank);
  } else {
    const bool is_world = ranks_[rank].process->world_size == size;
    op.missing.push_back(unknownRank(f.comm, f.peer, is_world ? f.peer : -1));
    op.peer = static_cast<int32_t>(op.missing.back());
  }
  measure(op);
  ops_.push_back(std::move(op));
}

void WaitGraph::build() {
  findEnded();
  findUnseen();
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
        collectives[keyOf(r, *f)].push_back({r, f});
    }
  }
  for (const auto& [key, waiting] : collectives) addCollective(key, waiting);
  for (const auto& [rank, f] : transfers) addTransfer(rank, *f);
  waits_.resize(ranks_.size());
  for (size_t i = 0; i < ops_.size(); ++i)
    for (size_t r : ops_[i].waiting) waits_[r].push_back(i);
}

}  // namespace tracesmith::analysis::live
