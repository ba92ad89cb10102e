// Which parts of different ranks are the same operation.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "analysis/collectives/collective_parts.hpp"
#include "analysis/rows/each_row.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// Where several groups share a name, the list of ranks tells them apart.
class GroupLists {
 public:
  Status load(const Reader& reader, const trace::NameNumbers& names) {
    return eachRow<GroupRow>(
        reader, names, {groups::rank, groups::comm, groups::ranks}, [&](const GroupRow& row, auto&& text) {
          std::string ranks(text(groups::ranks));
          if (row.comm == kNull || ranks.empty()) return;
          const auto comm = static_cast<uint32_t>(row.comm);
          auto [it, fresh] = ids_.emplace(std::move(ranks), static_cast<uint32_t>(ids_.size() + 1));
          seen_[comm].insert(it->second);
          if (row.rank != kNull) of_[{comm, row.rank}] = it->second;
        });
  }
  /// 0: the name is enough.
  uint32_t of(uint32_t comm, int64_t process) const {
    auto seen = seen_.find(comm);
    if (seen == seen_.end() || seen->second.size() < 2) return 0;
    auto it = of_.find({comm, process});
    return it == of_.end() ? 0 : it->second;
  }

 private:
  std::map<std::string, uint32_t> ids_;
  std::map<uint32_t, std::set<uint32_t>> seen_;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> of_;
};

constexpr uint32_t kAlone = UINT32_MAX, kByBehaviour = 1u << 31;

struct Key {
  uint32_t comm, list;
  int32_t from, to;  // of a send and its receive; −1: a collective
  auto operator<=>(const Key&) const = default;
};

Key keyOf(const Part& p, const GroupLists& lists) {
  Key key{p.comm, p.comm == trace::kNoName ? 0 : lists.of(p.comm, p.process), -1, -1};
  if (p.behaviour) key.list = kByBehaviour + p.behaviour;
  if (p.op == OpKind::send) key.from = p.process, key.to = p.peer;
  if (p.op == OpKind::recv) key.from = p.peer, key.to = p.process;
  // Without a communicator only the same kind of operation can be told to belong together.
  if (p.comm == trace::kNoName && key.from < 0) key.list = 1000 + static_cast<uint32_t>(p.op);
  return key;
}

/// Communicators whose sends and receives are numbered by pair. Traces from before this was so have one count for all
/// of them: there no number comes twice on a rank.
std::set<uint32_t> numberedByPair(const PartTable& table) {
  struct Seen {
    bool several = false, twice = false;
  };
  std::unordered_map<uint32_t, Seen> comms;
  for (const auto& [process, range] : table.of_process) {
    std::unordered_map<uint32_t, int64_t> streams;           // by communicator: any peer and direction
    std::map<std::pair<uint32_t, int64_t>, int64_t> owners;  // of a number
    for (size_t i = range.first; i < range.second; ++i) {
      const Part& p = table.parts[i];
      if (!isPair(p.op) || p.seq == kNull) continue;
      Seen& seen = comms[p.comm];
      const int64_t stream = 2 * static_cast<int64_t>(p.peer) + (p.op == OpKind::send);
      seen.several |= streams.try_emplace(p.comm, stream).first->second != stream;
      if (!seen.twice) seen.twice = owners.try_emplace({p.comm, p.seq}, stream).first->second != stream;
    }
  }
  std::set<uint32_t> numbered;
  for (const auto& [comm, seen] : comms)
    if (seen.twice || !seen.several) numbered.insert(comm);
  return numbered;
}

/// Communicators whose collectives are numbered by function, as NCCL does, and not over all of them: there a number
/// comes again on a rank with another function.
std::set<uint32_t> numberedByFunction(const PartTable& table) {
  std::set<uint32_t> numbered;
  for (const auto& [process, range] : table.of_process) {
    std::map<uint32_t, OpKind> first;                                // by communicator
    std::map<uint32_t, std::unordered_map<int64_t, OpKind>> owners;  // of numbers, where there are several functions
    for (size_t i = range.first; i < range.second; ++i) {
      const Part& p = table.parts[i];
      if (isPair(p.op) || p.exchange || p.seq == kNull || p.comm == trace::kNoName || numbered.contains(p.comm))
        continue;
      if (first.try_emplace(p.comm, p.op).first->second != p.op) owners[p.comm];
    }
    for (size_t i = range.first; i < range.second && !owners.empty(); ++i) {
      const Part& p = table.parts[i];
      if (isPair(p.op) || p.exchange || p.seq == kNull) continue;
      auto numbers = owners.find(p.comm);
      if (numbers == owners.end()) continue;
      if (numbers->second.try_emplace(p.seq, p.op).first->second != p.op) numbered.insert(p.comm);
    }
  }
  return numbered;
}

/// Kernels of operations that are rows of `collectives`. One of them without a row was launched before recording began,
/// or its row was lost: nobody knows which communicator it belongs to, though all others are known.
class ToldKernels {
 public:
  explicit ToldKernels(const PartTable& table) {
    for (const Part& p : table.parts)
      if (p.comm != trace::kNoName && !p.behaviour && p.kernel != trace::kNoName && p.kernel != last_)
        kernels_.insert(last_ = p.kernel);
  }
  bool lacksItsRow(const Part& p) const { return p.comm == trace::kNoName && kernels_.contains(p.kernel); }

 private:
  std::unordered_set<uint32_t> kernels_;
  uint32_t last_ = trace::kNoName;
};

}  // namespace

Status match(const Reader& reader, const trace::NameNumbers& names, PartTable& table) {
  GroupLists lists;
  TS_TRY(lists.load(reader, names));
  table.by_pair = numberedByPair(table);
  const std::set<uint32_t> by_function = numberedByFunction(table);
  const ToldKernels told(table);
  std::map<Key, uint32_t> ids;
  std::vector<uint32_t> comm_of(table.parts.size());
  std::vector<uint8_t> numbered;  // by communicator: every part has a sequence number
  uint32_t alone = UINT32_MAX;    // stands for those that meet nobody
  for (size_t i = 0; i < table.parts.size(); ++i) {
    const Part& p = table.parts[i];
    Key key = keyOf(p, lists);
    if (told.lacksItsRow(p)) key = {trace::kNoName, kAlone, -1, -1};
    auto [it, fresh] = ids.emplace(key, static_cast<uint32_t>(table.comms.size()));
    if (fresh) {
      Communicator c;
      c.name = p.comm == trace::kNoName ? std::string("(") + opName(p.op) + ")" : std::string(names.text(p.comm));
      if (p.behaviour) c.name = "by behaviour: " + c.name;
      if (key.from >= 0) c.name += " " + std::to_string(key.from) + "→" + std::to_string(key.to);
      table.comms.push_back(std::move(c));
      // What a rank sends to itself it also receives.
      if (key.list == kAlone) alone = it->second;
      numbered.push_back(key.from < 0 || (key.from != key.to && table.by_pair.contains(p.comm)));
    }
    comm_of[i] = it->second;
    Communicator& c = table.comms[it->second];
    if (p.seq == kNull) numbered[it->second] = 0;
    c.size = key.from >= 0 ? 2 : std::max(c.size, p.group_size);
    c.algo = p.algo != trace::kNoName ? p.algo : c.algo;
    if (c.members.empty() || c.members.back() != p.process) c.members.push_back(p.process);  // parts are by process
  }
  for (Communicator& c : table.comms) c.size = std::max(c.size, static_cast<int32_t>(c.members.size()));

  // The number of a part: its sequence, or its place; a sequence that comes again (a new communicator with the old
  // name) counts on from the largest. Kernels of different streams need not run in the order of their calls.
  std::vector<int64_t> number(table.parts.size());
  std::vector<OpKind> function(table.parts.size(), OpKind::other);
  int64_t next_alone = 0;
  for (const auto& [process, range] : table.of_process) {
    struct State {
      int64_t next = 0, base = 0, highest = -1;
      std::unordered_set<int64_t> seen;
    };
    std::map<std::pair<uint32_t, OpKind>, State> states;
    std::vector<uint32_t> calls;
    for (size_t i = range.first; i < range.second; ++i) calls.push_back(static_cast<uint32_t>(i));
    auto called = [&](uint32_t i) {
      return table.parts[i].enqueue == kNull ? table.parts[i].ts : table.parts[i].enqueue;
    };
    std::stable_sort(calls.begin(), calls.end(), [&](uint32_t a, uint32_t b) { return called(a) < called(b); });
    for (uint32_t i : calls) {
      if (comm_of[i] == alone) {
        number[i] = next_alone++;
        continue;
      }
      const Part& p = table.parts[i];
      if (p.exchange || (!isPair(p.op) && by_function.contains(p.comm))) function[i] = p.op;
      State& s = states[{comm_of[i], function[i]}];
      if (!numbered[comm_of[i]]) {
        number[i] = s.next++;
        continue;
      }
      if (!s.seen.insert(p.seq + s.base).second) {
        s.base = s.highest + 1 - p.seq;
        s.seen.insert(p.seq + s.base);
      }
      number[i] = p.seq + s.base;
      s.highest = std::max(s.highest, number[i]);
    }
  }
  table.order.resize(table.parts.size());
  for (uint32_t i = 0; i < table.order.size(); ++i) table.order[i] = i;
  std::sort(table.order.begin(), table.order.end(), [&](uint32_t a, uint32_t b) {
    if (comm_of[a] != comm_of[b]) return comm_of[a] < comm_of[b];
    if (function[a] != function[b]) return function[a] < function[b];
    return number[a] != number[b] ? number[a] < number[b] : a < b;
  });
  for (uint32_t i = 0; i < table.order.size();) {
    const uint32_t comm = comm_of[table.order[i]];
    if (comm == alone) {
      ++i;
      continue;
    }
    uint32_t end = i;
    while (end < table.order.size() && comm_of[table.order[end]] == comm &&
           function[table.order[end]] == function[table.order[i]] && number[table.order[end]] == number[table.order[i]])
      ++end;
    Instance in;
    in.first = i;
    in.count = end - i;
    in.comm = comm;
    in.index = number[table.order[i]];
    in.op = table.parts[table.order[i]].op;
    in.group_size = table.comms[comm].size;
    in.complete = static_cast<int32_t>(in.count) == in.group_size;
    bool same = true;
    for (uint32_t k = i; k < end; ++k) {
      const OpKind op = table.parts[table.order[k]].op;
      same = same && (op == in.op || (isPair(op) && isPair(in.op)));
    }
    if (same)
      table.instances.push_back(in);
    else
      table.unmatched += in.count;
    i = end;
  }
  return {};
}

}  // namespace tracesmith::analysis
