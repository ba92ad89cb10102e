// Who sends how much to whom in the job: the edges of every operation, by the algorithm that ran it.
#include <set>

#include "analysis/collectives/comm_edges.hpp"
#include "analysis/verdict/job_data.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

/// Name of the algorithm of an operation: any of its ranks may tell it. Empty: none does.
std::string_view algorithmOf(const PartTable& t, const Instance& in, const trace::NameNumbers& names) {
  for (uint32_t k = 0; k < in.count; ++k)
    if (const uint32_t algo = t.parts[t.order[in.first + k]].algo; algo != trace::kNoName) return names.text(algo);
  return {};
}

/// The members of each communicator in its own order, where every rank tells its place.
std::vector<std::vector<int32_t>> membersInOrder(const PartTable& t) {
  std::vector<std::map<int32_t, int32_t>> places(t.comms.size());
  for (const Instance& in : t.instances) {
    std::map<int32_t, int32_t>& known = places[in.comm];
    if (known.size() >= t.comms[in.comm].members.size()) continue;
    for (uint32_t k = 0; k < in.count; ++k)
      if (const Part& p = t.parts[t.order[in.first + k]]; p.place >= 0) known.try_emplace(p.place, p.process);
  }
  std::vector<std::vector<int32_t>> out(t.comms.size());
  for (size_t c = 0; c < out.size(); ++c) {
    out[c] = t.comms[c].members;
    if (places[c].size() != out[c].size()) continue;
    out[c].clear();
    for (const auto& [place, process] : places[c]) out[c].push_back(process);
  }
  return out;
}

/// Of the communicators, if they all have the same: rings within nodes and over all of them are rings. A communicator
/// has that of the algorithm which moved most.
std::string pattern(const PartTable& t, const trace::NameNumbers& names) {
  std::map<std::tuple<uint32_t, OpKind, std::string_view>, double> moved;
  for (const Instance& in : t.instances)
    if (in.bytes != kNull && endsTogether(in.op))
      moved[{in.comm, in.op, algorithmOf(t, in, names)}] += static_cast<double>(in.bytes);
  std::map<uint32_t, std::pair<double, std::string_view>> of_comm;
  for (const auto& [key, bytes] : moved) {
    const auto& [comm, op, algo] = key;
    const size_t n = t.comms[comm].members.size();
    if (n < 2 || (of_comm.contains(comm) && of_comm[comm].first >= bytes)) continue;
    std::vector<std::vector<uint64_t>> matrix(n, std::vector<uint64_t>(n, 0));
    std::vector<int32_t> places(n);
    for (size_t i = 0; i < n; ++i) places[i] = static_cast<int32_t>(i);
    eachEdge(op, algo, places, 0, 1000,  // the root matters to who sends, not to the pattern
             [&](int64_t from, int64_t to, double) { matrix[static_cast<size_t>(from)][static_cast<size_t>(to)] = 1; });
    of_comm[comm] = {bytes, patternOf(matrix)};
  }
  std::set<std::string_view> found;
  for (const auto& [comm, most] : of_comm) found.insert(most.second);
  return found.empty() ? "" : found.size() == 1 ? std::string(*found.begin()) : "custom";
}

}  // namespace

void findTraffic(const JobData& job, const trace::NameNumbers& names, Analysis& out) {
  const PartTable& t = job.table;
  struct Cell {
    double bytes = 0, ns = 0;
    uint64_t count = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Cell> cells;
  const std::vector<std::vector<int32_t>> members = membersInOrder(t);
  uint64_t seen = 0, guessed = 0, rootless = 0;
  for (const Instance& in : t.instances) {
    if (in.bytes == kNull || !in.complete) continue;
    const Part& p = t.parts[t.order[in.first]];
    const std::vector<int32_t> ends = {p.op == OpKind::send ? p.process : p.peer,
                                       p.op == OpKind::send ? p.peer : p.process};
    const std::string_view algo = algorithmOf(t, in, names);
    ++seen;
    if (!isPair(in.op) && !drawsEdges(in.op, members[in.comm], p.peer)) {
      ++rootless;
      continue;
    }
    guessed += !knowsEdges(in.op, algo);
    eachEdge(isPair(in.op) ? OpKind::send : in.op, algo, isPair(in.op) ? ends : members[in.comm], p.peer,
             static_cast<double>(in.bytes), [&](int64_t from, int64_t to, double bytes) {
               Cell& cell = cells[{from, to}];
               cell.bytes += bytes;
               cell.ns += static_cast<double>(in.transferNs());
               ++cell.count;
             });
  }
  for (const auto& [key, cell] : cells)
    out.matrix.push_back({key.first, key.second, static_cast<uint64_t>(cell.bytes), cell.count,
                          cell.ns / 1000 / static_cast<double>(cell.count)});
  const std::string of = " of " + std::to_string(seen) + " operations ";
  if (guessed > 0)
    out.matrix_note =
        std::to_string(guessed) + of + "drawn as rings: the trace does not say which ranks exchanged data in them";
  if (rootless > 0)
    out.matrix_note +=
        (guessed > 0 ? "; " : "") + std::to_string(rootless) + of + "left out: the trace does not name the root";
  out.pattern = pattern(t, names);
}

}  // namespace tracesmith::analysis
