#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

void trimHostEnds(PartTable& table) {
  for (const auto& [process, range] : table.of_process)
    for (size_t i = range.first; i + 1 < range.second; ++i) {
      Part& p = table.parts[i];
      const int64_t next = table.parts[i + 1].ts;
      if (p.end <= next || p.instance == UINT32_MAX) continue;
      const int64_t all_there = table.instances[p.instance].last_start;
      if (next > all_there && p.end - next <= (p.end - all_there) / 2) p.end = next;
    }
}

}  // namespace tracesmith::analysis
