#include "analysis/collectives/rejoin.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "analysis/rows/each_row.hpp"
#include "base/count.hpp"
#include "model/communication.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// A kernel of NCCL and the call that launched it.
struct Kernel {
  int64_t ts, end, correlation;
  int64_t stream = kNull, device = kNull;
  uint32_t name = trace::kNoName;
  int64_t launch = kNull, launch_end = kNull;
};
using Kernels = std::map<int64_t, std::vector<Kernel>>;  // by process
/// Launches of CUDA graphs, by process: which kernel in them is whose cannot be told by the call, nor by the order.
using GraphLaunches = std::map<int64_t, std::set<int64_t>>;

/// Processes whose join may be wrong: an operation lacks its kernel, or kernels of a stream are not in the order in
/// which their operations were called.
std::set<int64_t> suspects(const PartTable& table) {
  std::set<int64_t> out;
  for (const OpenPart& o : table.open)
    if (o.part.enqueue != kNull && !o.hidden) out.insert(o.part.process);
  for (const auto& [process, range] : table.of_process) {
    std::map<int32_t, int64_t> last;  // by stream: parts are in the order of their kernels
    for (size_t i = range.first; i < range.second; ++i) {
      const Part& p = table.parts[i];
      if (p.enqueue == kNull) {  // nothing to check it by
        out.erase(process);
        break;
      }
      auto [it, fresh] = last.try_emplace(p.stream, p.enqueue);
      if (!fresh && p.enqueue < it->second) out.insert(process);
      it->second = std::max(it->second, p.enqueue);
    }
  }
  return out;
}

uint64_t bit(EventType type) { return 1ull << static_cast<unsigned>(type); }

Result<Kernels> kernelsOf(const Reader& reader, const trace::NameNumbers& names, const std::set<int64_t>& processes,
                          GraphLaunches& graphs) {
  std::vector<uint8_t> nccl;
  for (uint32_t n = 0; n < names.size(); ++n) nccl.push_back(model::isNcclKernel(names.text(n)));
  Kernels out;
  std::map<int64_t, std::unordered_map<int64_t, uint32_t>> by_correlation;
  namespace e = events;
  Selection kernels, calls;
  kernels.types = bit(EventType::kernel);
  calls.types = bit(EventType::runtime) | bit(EventType::driver);
  RowCursor<EventRow> kernel(
      reader, {e::ts, e::dur, e::rank, e::pid, e::name, e::correlation, e::stream, e::device, e::type, e::graph},
      kernels, &names);
  while (kernel.next()) {
    const EventRow& row = kernel.row();
    if (row.name == kNull || !nccl[static_cast<size_t>(row.name)] || row.dur == kNull) continue;
    const int64_t process = processOf(row.rank, row.pid);
    if (!processes.contains(process)) continue;
    if (row.graph != kNull) {
      graphs[process].insert(row.correlation);
      continue;
    }
    std::vector<Kernel>& list = out[process];
    if (row.correlation != kNull) by_correlation[process][row.correlation] = static_cast<uint32_t>(list.size());
    list.push_back({.ts = row.ts,
                    .end = row.ts + row.dur,
                    .correlation = row.correlation,
                    .stream = row.stream,
                    .device = row.device,
                    .name = static_cast<uint32_t>(row.name)});
  }
  TS_TRY(kernel.status());
  RowCursor<EventRow> call(reader, {e::ts, e::dur, e::rank, e::pid, e::correlation, e::type}, calls, &names);
  while (call.next()) {
    const EventRow& row = call.row();
    if (row.correlation == kNull || row.dur == kNull) continue;
    auto process = by_correlation.find(processOf(row.rank, row.pid));
    if (process == by_correlation.end()) continue;
    auto found = process->second.find(row.correlation);
    if (found == process->second.end()) continue;
    // A call of the runtime contains one of the driver: the inner one is the launch.
    Kernel& k = out[process->first][found->second];
    if (k.launch == kNull || row.ts > k.launch) {
      k.launch = row.ts;
      k.launch_end = row.ts + row.dur;
    }
  }
  TS_TRY(call.status());
  return out;
}

constexpr uint32_t kNoKernel = UINT32_MAX;
constexpr int64_t kReportNs = 2'000'000;  // NCCL reports an operation at most so long after its launch call

bool fits(OpKind op, std::string_view kernel) {
  const OpKind told = model::opKindOf(model::kernelWords(kernel).function);
  if (told == OpKind::other || told == op) return true;
  const bool as_pairs = model::isPair(op) || op == OpKind::all_to_all || op == OpKind::gather || op == OpKind::scatter;
  return told == OpKind::send_recv && as_pairs;
}

/// NCCL reports the operations of a launch right after the call, on the same thread: the last launch before the report
/// is theirs. Returns the kernel of each operation.
std::vector<uint32_t> byLaunch(const std::vector<const Part*>& operations, const std::vector<Kernel>& kernels,
                               const trace::NameNumbers& names) {
  std::vector<uint32_t> order, out;
  for (uint32_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].launch != kNull) order.push_back(k);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return kernels[a].launch < kernels[b].launch; });
  for (const Part* p : operations) {
    auto after = std::upper_bound(order.begin(), order.end(), p->enqueue,
                                  [&](int64_t enqueue, uint32_t k) { return enqueue < kernels[k].launch; });
    out.push_back(kNoKernel);
    if (after == order.begin()) continue;
    const Kernel& k = kernels[*(after - 1)];
    if (p->enqueue <= k.launch_end + kReportNs && fits(p->op, names.text(k.name))) out.back() = *(after - 1);
  }
  // One that has not ended (the job hangs) has no kernel in the trace: the last launch before it is another one's.
  std::set<uint32_t> taken;
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] != kNoKernel && operations[i]->ts == kernels[out[i]].ts) taken.insert(out[i]);
  for (size_t i = 0; i < out.size(); ++i)
    if (operations[i]->ts == kNull && taken.contains(out[i])) out[i] = kNoKernel;
  return out;
}

/// Without launch calls: the n-th launch on a stream ran as its n-th kernel. Where there are more of one than of the
/// other the recording began or ended between them: of all shifts the one with the fewest kernels that would run before
/// they were launched or work for another function, and of equal ones the one that changes least.
std::vector<uint32_t> byOrder(const std::vector<const Part*>& operations, const std::vector<Kernel>& kernels,
                              const trace::NameNumbers& names) {
  constexpr int64_t kEarlyNs = 1'000'000;  // a thread can be held up between its launch and its report
  using Way = std::tuple<uint32_t, OpKind, int32_t>;
  std::map<Way, std::map<int32_t, int>> streams;
  auto way = [](const Part& p) { return Way(p.comm, p.op, p.peer); };
  for (const Part* p : operations)
    if (p->stream >= 0) ++streams[way(*p)][p->stream];
  auto streamOf = [&](const Part& p) {
    if (p.stream >= 0) return p.stream;
    int32_t best = -1;
    int most = 0;
    for (const auto& [stream, count] : streams[way(p)])
      if (count > most) best = stream, most = count;
    return best;
  };
  std::map<int64_t, std::vector<uint32_t>> queue;  // kernels by stream, in order
  for (uint32_t k = 0; k < kernels.size(); ++k) queue[kernels[k].stream].push_back(k);
  for (auto& [stream, list] : queue)
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) { return kernels[a].ts < kernels[b].ts; });
  // Operations that had one kernel together are one launch.
  std::map<int64_t, std::vector<std::vector<uint32_t>>> launches;
  for (uint32_t i = 0; i < operations.size(); ++i) {
    auto& list = launches[streamOf(*operations[i])];
    const Part* before = list.empty() ? nullptr : operations[list.back().back()];
    const int64_t kernel = operations[i]->correlation;
    if (before && kernel != kNull && before->correlation == kernel)
      list.back().push_back(i);
    else
      list.push_back({i});
  }
  std::vector<uint32_t> out(operations.size(), kNoKernel);
  for (const auto& [stream, list] : launches) {
    auto found = queue.find(stream);
    if (found == queue.end()) continue;
    const std::vector<uint32_t>& ran = found->second;
    const auto extra = static_cast<int64_t>(ran.size()) - static_cast<int64_t>(list.size());
    int64_t best = 0;
    std::pair<int64_t, int64_t> fewest = {INT64_MAX, 0};  // wrong, changed
    for (int64_t shift = std::min<int64_t>(0, extra); shift <= std::max<int64_t>(0, extra); ++shift) {
      int64_t wrong = 0, changed = 0;
      for (size_t i = 0; i < list.size() && wrong <= fewest.first; ++i) {
        const int64_t at = static_cast<int64_t>(i) + shift;
        if (at < 0 || at >= static_cast<int64_t>(ran.size())) continue;
        const Kernel& k = kernels[ran[static_cast<size_t>(at)]];
        const Part& p = *operations[list[i].front()];
        wrong += k.ts + kEarlyNs < p.enqueue || !fits(p.op, names.text(k.name));
        changed += p.ts != k.ts;
      }
      if (std::pair(wrong, changed) < fewest) best = shift, fewest = {wrong, changed};
    }
    if (fewest.first * 20 > static_cast<int64_t>(list.size())) continue;  // no order explains it
    for (size_t i = 0; i < list.size(); ++i)
      if (const int64_t at = static_cast<int64_t>(i) + best; at >= 0 && at < static_cast<int64_t>(ran.size()))
        for (uint32_t operation : list[i]) out[operation] = ran[static_cast<size_t>(at)];
  }
  return out;
}

}  // namespace

std::string noteOf(const Rejoined& r) {
  std::string note;
  if (r.moved > 0)
    note = counted(r.moved, "operation") +
           " had no kernel or that of another operation and were joined again by their launches";
  if (r.without > 0)
    note += (note.empty() ? "no kernel was found for " + counted(r.without, "operation")
                          : "; for " + std::to_string(r.without) + " more no kernel was found") +
            (r.without == 1 ? ", which was left out" : ", which were left out");
  return note;
}

Result<Rejoined> rejoinKernels(const Reader& reader, const trace::NameNumbers& names, PartTable& table) {
  Rejoined out;
  const std::set<int64_t> processes = suspects(table);
  if (processes.empty()) return out;
  GraphLaunches graphs;
  Result<Kernels> kernels = kernelsOf(reader, names, processes, graphs);
  if (!kernels) return kernels.status();
  std::vector<Part> parts;
  std::vector<OpenPart> open;
  std::map<int64_t, std::vector<OpenPart>> of_process;  // all operations of the suspects, in the order of their calls
  auto checked = [&](const Part& p) {
    if (p.enqueue == kNull || !kernels->contains(p.process)) return false;
    auto launches = graphs.find(p.process);
    return launches == graphs.end() || !launches->second.contains(p.correlation);
  };
  for (const Part& p : table.parts) {
    if (checked(p))
      of_process[p.process].push_back({p, trace::kNoName, trace::kNoName, false});
    else
      parts.push_back(p);
  }
  for (OpenPart& o : table.open) {
    if (!o.hidden && checked(o.part))
      of_process[o.part.process].push_back(o);
    else
      open.push_back(o);
  }
  for (auto& [process, list] : of_process) {
    std::stable_sort(list.begin(), list.end(),
                     [](const OpenPart& a, const OpenPart& b) { return a.part.enqueue < b.part.enqueue; });
    std::vector<const Part*> operations;
    for (const OpenPart& o : list) operations.push_back(&o.part);
    const std::vector<Kernel>& its = (*kernels)[process];
    const auto launched = std::count_if(its.begin(), its.end(), [](const Kernel& k) { return k.launch != kNull; });
    const bool exact = 20 * static_cast<size_t>(launched) > 19 * its.size();
    const std::vector<uint32_t> joined = exact ? byLaunch(operations, its, names) : byOrder(operations, its, names);
    // An answer that leaves more without a kernel than before is no better.
    const auto had = std::count_if(list.begin(), list.end(), [](const OpenPart& o) { return o.part.ts != kNull; });
    const auto has = std::count_if(joined.begin(), joined.end(), [](uint32_t k) { return k != kNoKernel; });
    const bool better = 20 * has > 19 * had;
    for (size_t i = 0; i < list.size(); ++i) {
      OpenPart& o = list[i];
      Part& p = o.part;
      if (better && joined[i] != kNoKernel) {
        const Kernel& k = its[joined[i]];
        out.moved += p.ts != k.ts || p.end != k.end;
        p.ts = k.ts;
        p.end = k.end;
        p.correlation = k.correlation;
        p.kernel = k.name;
        p.stream = k.stream == kNull ? -1 : static_cast<int32_t>(k.stream);
      } else if (better && p.ts != kNull) {
        ++out.without;
        continue;
      }
      if (p.ts != kNull)
        parts.push_back(p);
      else
        open.push_back(o);
    }
  }
  table.open = std::move(open);
  table.parts.clear();
  addParts(table, std::move(parts));
  return out;
}

}  // namespace tracesmith::analysis
