#include "analysis/collectives/collective_parts.hpp"

#include <algorithm>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/sort_runs.hpp"

namespace tracesmith::analysis {

using namespace trace;
using model::Waiting;

namespace {

void sortParts(PartTable& table) {
  sortRuns(table.parts,
           [](const Part& a, const Part& b) { return a.process != b.process ? a.process < b.process : a.ts < b.ts; });
  table.of_process.clear();
  for (size_t i = 0; i < table.parts.size();) {
    size_t end = i;
    while (end < table.parts.size() && table.parts[end].process == table.parts[i].process) ++end;
    table.of_process[table.parts[i].process] = {i, end};
    i = end;
  }
}

/// A clock domain for every process that has a part.
void findDomains(PartTable& table) {
  std::map<std::string, uint32_t> known;
  for (const std::string& d : table.domains) known.emplace(d, static_cast<uint32_t>(known.size()));
  auto add = [&](int64_t process) {
    if (table.domain_of.contains(process)) return;
    auto node = table.node_of.find(process);
    const std::string name = node != table.node_of.end() ? node->second
                             : process >= 0              ? "rank " + std::to_string(process)
                                                         : "pid " + std::to_string(-1 - process);
    auto [it, fresh] = known.emplace(name, static_cast<uint32_t>(known.size()));
    if (fresh) table.domains.push_back(name);
    table.domain_of[process] = it->second;
  };
  for (const auto& [process, range] : table.of_process) add(process);
  for (const auto& [process, node] : table.node_of) add(process);
}

/// How far ends and starts on different clocks may be off.
int64_t toleranceOf(const trace::Clocks& clocks) {
  const int64_t bound = worstBound(clocks);
  return 20'000 + 2 * (bound == INT64_MAX ? 50'000 : bound);
}

}  // namespace

const std::string& PartTable::domain(int64_t process) const {
  static const std::string none;
  auto it = domain_of.find(process);
  return it == domain_of.end() ? none : domains[it->second];
}

Result<PartTable> loadParts(const Reader& reader, const trace::NameNumbers& names) {
  PartTable table;
  auto placed = [&](int64_t process, int64_t node) {
    if (node == kNull || table.node_of.contains(process)) return;
    table.node_of.emplace(process, names.text(static_cast<uint32_t>(node)));
  };
  TS_TRY(eachRow<ProcessRow>(reader, names, {processes::node, processes::rank, processes::pid},
                             [&](const ProcessRow& row, auto&&) {
                               if (row.rank != kNull) placed(row.rank, row.node);
                             }));
  TS_TRY(eachRow<StepRow>(reader, names, {steps::node, steps::rank, steps::pid},
                          [&](const StepRow& row, auto&&) { placed(processOf(row.rank, row.pid), row.node); }));
  std::vector<OpKind> ops;
  for (uint32_t n = 0; n < names.size(); ++n) ops.push_back(model::opKind(names.text(n)));
  namespace c = collectives;
  const std::vector<int> columns = {c::ts,          c::dur,  c::op,     c::comm,       c::seq,   c::node, c::rank,
                                    c::group_size,  c::peer, c::bytes,  c::algo,       c::step,  c::pid,  c::ts_enqueue,
                                    c::correlation, c::name, c::stream, c::group_rank, c::device};
  std::vector<uint32_t> placed_peers;
  int64_t last_rank = kNull, last_device = kNull, last_placed = kNull;  // rows of a rank follow each other
  table.parts.reserve(reader.rows(tableOf<CollectiveRow>()));
  TS_TRY(eachRow<CollectiveRow>(reader, names, columns, [&](const CollectiveRow& row, auto&&) {
    if (row.rank != kNull && row.device != kNull && (row.rank != last_rank || row.device != last_device))
      table.device_of[last_rank = row.rank] = last_device = row.device;
    if (row.dur != kNull) table.longest_ns = std::max(table.longest_ns, row.dur);
    int64_t end = kNull;
    const bool ended = row.ts != kNull && row.dur != kNull && !__builtin_add_overflow(row.ts, row.dur, &end);
    if (!ended && row.ts != kNull) return;
    Part p;
    p.ts = row.ts;
    p.end = end;
    p.seq = row.seq;
    p.bytes = row.bytes;
    p.enqueue = row.ts_enqueue;
    p.correlation = row.correlation;
    p.process = static_cast<int32_t>(processOf(row.rank, row.pid));
    auto small = [](int64_t v) { return v == kNull || v < 0 || v > INT32_MAX ? -1 : static_cast<int32_t>(v); };
    p.group_size = small(row.group_size);
    p.peer = small(row.peer);
    p.step = small(row.step);
    p.stream = small(row.stream);
    auto name = [](int64_t v) { return v == kNull ? trace::kNoName : static_cast<uint32_t>(v); };
    p.comm = name(row.comm);
    p.algo = name(row.algo);
    p.kernel = name(row.name);
    if (row.op != kNull) p.op = ops[static_cast<size_t>(row.op)];
    const bool placed_here = row.group_rank != kNull && p.comm != trace::kNoName;
    if (placed_here) p.place = small(row.group_rank);
    if (!ended) {
      if (row.rank != kNull && row.op != kNull && p.comm != trace::kNoName && row.seq != kNull)
        table.open.push_back({p, static_cast<uint32_t>(row.op), name(row.node), row.name != kNull});
      return;
    }
    if (placed_here && p.peer >= 0) placed_peers.push_back(static_cast<uint32_t>(table.parts.size()));
    table.parts.push_back(p);
    if (row.node != kNull && p.process != last_placed) placed(last_placed = p.process, row.node);
  }));
  // Where a row tells its own place in the communicator, its peer is a place too.
  std::map<std::pair<uint32_t, int32_t>, int32_t> members;
  if (!placed_peers.empty() || !table.open.empty())
    for (const Part& p : table.parts)
      if (p.place >= 0) members.try_emplace({p.comm, p.place}, p.process);
  auto find_peer = [&](Part& p) {
    auto member = members.find({p.comm, p.peer});
    p.peer = member == members.end() ? -1 : member->second;  // the peer is not in the trace
  };
  for (uint32_t i : placed_peers) find_peer(table.parts[i]);
  for (OpenPart& o : table.open)
    if (o.part.place >= 0 && o.part.peer >= 0) find_peer(o.part);
  sortParts(table);
  findDomains(table);
  return table;
}

void addParts(PartTable& table, std::vector<Part> more) {
  if (more.empty()) return;
  table.parts.insert(table.parts.end(), more.begin(), more.end());
  sortParts(table);
  findDomains(table);
}

uint64_t findImpossible(PartTable& table) {
  constexpr int64_t kToleranceNs = 20'000;
  uint64_t found = 0;
  for (Instance& in : table.instances) {
    if (!endsTogether(in.op) || in.count < 2) continue;
    struct Span {
      int64_t last_start = INT64_MIN, first_end = INT64_MAX;
    };
    std::map<uint32_t, Span> spans;  // by clock domain: on one clock there is no doubt
    for (uint32_t k = 0; k < in.count; ++k) {
      const Part& p = table.parts[table.order[in.first + k]];
      Span& s = spans[table.domain_of.at(p.process)];
      s.last_start = std::max(s.last_start, p.ts);
      s.first_end = std::min(s.first_end, p.end);
    }
    for (const auto& [domain, s] : spans) in.possible &= s.first_end + kToleranceNs >= s.last_start;
    found += !in.possible;
  }
  return found;
}

Contradictions contradictions(const PartTable& table, const trace::Clocks& clocks) {
  Contradictions out;
  const int64_t tolerance = toleranceOf(clocks);
  const size_t stride = std::max<size_t>(1, table.instances.size() / 2000);
  for (size_t i = 0; i < table.instances.size(); i += stride) {
    const Instance& in = table.instances[i];
    if (!endsTogether(in.op) || in.count < 2 || !in.possible) continue;
    int64_t last_start = INT64_MIN, first_end = INT64_MAX;
    for (uint32_t k = 0; k < in.count; ++k) {
      const Part& p = table.parts[table.order[in.first + k]];
      const trace::ClockTable& clock = clockOf(clocks, table.domain(p.process));
      last_start = std::max(last_start, clock.toReference(p.ts));
      first_end = std::min(first_end, clock.toReference(p.end));
    }
    ++out.checked;
    out.wrong += first_end + tolerance < last_start;
  }
  return out;
}

void settle(PartTable& table, const trace::Clocks& clocks) {
  for (const auto& [process, range] : table.of_process) {
    const trace::ClockTable& clock = clockOf(clocks, table.domain(process));
    for (size_t i = range.first; i < range.second; ++i) {
      Part& p = table.parts[i];
      p.ts = clock.toReference(p.ts);
      p.end = clock.toReference(p.end);
      if (p.enqueue != kNull) p.enqueue = clock.toReference(p.enqueue);
    }
  }
  const int64_t tolerance = toleranceOf(clocks);
  for (Instance& in : table.instances) {
    auto part = [&](uint32_t k) -> Part& { return table.parts[table.order[in.first + k]]; };
    in.first_start = in.last_start = part(0).ts;
    in.first_end = in.last_end = part(0).end;
    uint32_t last = 0, root = UINT32_MAX;
    for (uint32_t k = 0; k < in.count; ++k) {
      const Part& p = part(k);
      in.first_start = std::min(in.first_start, p.ts);
      if (p.ts > part(last).ts) last = k;
      in.first_end = std::min(in.first_end, p.end);
      in.last_end = std::max(in.last_end, p.end);
      if (p.bytes != kNull) in.bytes = std::max(in.bytes == kNull ? 0 : in.bytes, p.bytes);
      if (in.step < 0) in.step = p.step;
      if (p.peer == p.process) root = k;
    }
    in.last_start = part(last).ts;
    in.wait_ns = in.exposed_wait_ns = 0;
    in.last_part = -1;
    in.consistent = in.possible;
    // Who is kept by the last to come: all by a late root of a broadcast, nobody by another late rank there.
    const Waiting waiting = waitingIn(in.op);
    if (waiting == Waiting::unknown || (waiting == Waiting::for_root && root != last)) continue;
    if (waiting == Waiting::all) in.consistent = in.possible && in.first_end + tolerance >= in.last_start;
    if (in.count < 2 || !in.consistent) continue;
    in.last_part = static_cast<int32_t>(table.order[in.first + last]);
    bool kept = false;
    for (uint32_t k = 0; k < in.count; ++k) kept |= k != last && waitsForLast(in, part(k));
    if (!kept) in.last_part = -1;
    for (uint32_t k = 0; k < in.count && kept; ++k) {
      const Part& p = part(k);
      if (!waitsForLast(in, p)) continue;
      const int64_t wait = std::max<int64_t>(0, std::min(in.last_start, p.end) - p.ts);
      in.wait_ns += wait;
      // Computation under a collective is taken to be spread evenly over it.
      if (p.end > p.ts)
        in.exposed_wait_ns += static_cast<int64_t>(static_cast<double>(wait) * static_cast<double>(p.exposed_ns) /
                                                   static_cast<double>(p.end - p.ts));
    }
  }
  std::vector<uint32_t> by_start(table.instances.size());
  for (uint32_t i = 0; i < by_start.size(); ++i) by_start[i] = i;
  std::stable_sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
    return table.instances[a].last_start < table.instances[b].last_start;
  });
  std::vector<Instance> sorted;
  sorted.reserve(by_start.size());
  for (uint32_t i : by_start) sorted.push_back(table.instances[i]);
  table.instances.swap(sorted);
  for (uint32_t i = 0; i < table.instances.size(); ++i)
    for (uint32_t k = 0; k < table.instances[i].count; ++k)
      table.parts[table.order[table.instances[i].first + k]].instance = i;
}

}  // namespace tracesmith::analysis
