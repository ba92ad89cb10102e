#include "analysis/rows/coverage.hpp"

#include <algorithm>

#include "analysis/rows/each_row.hpp"
#include "model/coverage.hpp"

namespace tracesmith::analysis {

using namespace trace;

Result<Coverage> Coverage::load(const Reader& reader, const trace::NameNumbers& names) {
  Coverage out;
  int64_t on = kNull, off = kNull;
  for (uint32_t n = 0; n < names.size(); ++n) {
    if (names.text(n) == model::kGpuOn) on = n;
    if (names.text(n) == model::kGpuOff) off = n;
  }
  if (off == kNull) return out;
  std::map<int64_t, std::vector<std::pair<int64_t, bool>>> marks;  // by process: when, and whether on
  Selection markers;
  markers.types = 1ull << static_cast<unsigned>(EventType::marker);
  RowCursor<EventRow> rows(reader, {events::ts, events::rank, events::pid, events::name, events::type}, markers,
                           &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.name == off || (row.name == on && on != kNull))
      marks[processOf(row.rank, row.pid)].emplace_back(row.ts, row.name == on);
  }
  TS_TRY(rows.status());
  for (auto& [process, list] : marks) {
    std::sort(list.begin(), list.end());
    std::vector<Interval>& gaps = out.off_[process];
    bool recorded = !list.front().second;  // what is turned on was off before
    int64_t since = INT64_MIN;
    for (const auto& [ts, turned_on] : list) {
      if (turned_on && !recorded) gaps.push_back({since, ts});
      if (!turned_on && recorded) since = ts;
      recorded = turned_on;
    }
    if (!recorded) gaps.push_back({since, INT64_MAX});
  }
  return out;
}

int64_t Coverage::missing(int64_t process, int64_t from, int64_t to) const {
  auto found = off_.find(process);
  if (found == off_.end()) return 0;
  int64_t sum = 0;
  for (auto gap = std::lower_bound(found->second.begin(), found->second.end(), from,
                                   [](const Interval&i, int64_t at) { return i.to <= at; });
       gap != found->second.end() && gap->from < to; ++gap)
    sum += std::min(to, gap->to) - std::max(from, gap->from);
  return sum;
}

}  // namespace tracesmith::analysis
