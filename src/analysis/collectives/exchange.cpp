// An all-to-all that its library runs as sends and receives to and from everybody in one kernel: no rank leaves it
// before the last has come, so it is one operation of the group and not many of pairs.
#include <algorithm>
#include <set>

#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

/// Parts [first, end) of one kernel. Whether they exchange with every other rank of their communicator.
bool isExchange(const std::vector<Part>& parts, size_t first, size_t end) {
  const Part& p = parts[first];
  if (p.group_size < 3 || static_cast<int64_t>(end - first) < 2 * (p.group_size - 1)) return false;
  std::set<int32_t> to, from;
  for (size_t i = first; i < end; ++i) {
    if (!isPair(parts[i].op) || parts[i].comm != p.comm || parts[i].peer < 0) return false;
    if (parts[i].peer != p.process) (parts[i].op == OpKind::send ? to : from).insert(parts[i].peer);
  }
  const auto others = static_cast<size_t>(p.group_size - 1);
  return to.size() == others && from.size() == others;
}

/// The end of the parts from `first` on that are of one kernel.
size_t kernelEnd(const std::vector<Part>& parts, size_t first, size_t end) {
  const Part& p = parts[first];
  size_t i = first + 1;
  while (i < end && parts[i].ts == p.ts && parts[i].correlation == p.correlation && parts[i].end == p.end) ++i;
  return i;
}

bool hasExchange(const PartTable& table) {
  for (const auto& [process, range] : table.of_process)
    for (size_t i = range.first, end; i < range.second; i = end) {
      end = kernelEnd(table.parts, i, range.second);
      if (isExchange(table.parts, i, end)) return true;
    }
  return false;
}

}  // namespace

void mergeExchanges(PartTable& table) {
  if (!hasExchange(table)) return;  // most traces have none, and copying all parts costs more than looking
  std::vector<Part> parts;
  std::set<uint32_t> uneven;  // communicators whose sends and receives have no common number
  for (const auto& [process, range] : table.of_process)
    for (size_t i = range.first; i < range.second;) {
      const size_t end = kernelEnd(table.parts, i, range.second);
      if (!isExchange(table.parts, i, end)) {
        parts.insert(parts.end(), table.parts.begin() + static_cast<std::ptrdiff_t>(i),
                     table.parts.begin() + static_cast<std::ptrdiff_t>(end));
        i = end;
        continue;
      }
      Part whole = table.parts[i];
      whole.op = OpKind::all_to_all;
      whole.exchange = true;
      whole.peer = -1;
      whole.bytes = 0;
      for (; i < end; ++i) {
        const Part& p = table.parts[i];
        table.merged.push_back(p);
        if (p.op == OpKind::send && p.bytes != kNull) whole.bytes += p.bytes;
        if (p.enqueue != kNull) whole.enqueue = std::min(whole.enqueue, p.enqueue);
        if (p.seq != whole.seq) uneven.insert(p.comm);
      }
      parts.push_back(whole);
    }
  std::map<std::pair<int32_t, uint32_t>, int64_t> next;  // by process and communicator
  for (Part& p : parts)
    if (p.exchange && (p.seq == kNull || uneven.contains(p.comm))) p.seq = next[{p.process, p.comm}]++;
  table.parts.clear();
  addParts(table, std::move(parts));
}

}  // namespace tracesmith::analysis
