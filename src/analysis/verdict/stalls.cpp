// Lines of the program in which hosts wait for the GPU.
#include <algorithm>
#include <map>

#include "analysis/verdict/job_data.hpp"
#include "base/count.hpp"
#include "base/text.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

Status sayStalls(const Reader& reader, const NameNumbers& names, const JobData& job, Analysis& out) {
  constexpr double kLeast = 0.01;  // of the steps
  constexpr size_t kMost = 3;
  bool any = false;
  for (uint32_t n = 0; n < names.size() && !any; ++n) any = names.text(n).starts_with(model::kStall);
  if (!any || job.step_ns <= 0) return {};
  struct Stall {
    int64_t name = kNull, ns = 0;
    uint64_t count = 0;
  };
  std::map<int64_t, Stall> by_name;
  Selection selection;
  selection.types = 1ull << static_cast<int>(EventType::annotation);
  RowCursor<EventRow> rows(reader, {events::dur, events::name, events::step}, std::move(selection), &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.dur == kNull || row.name == kNull || row.step == kNull ||
        !names.text(static_cast<uint32_t>(row.name)).starts_with(model::kStall))
      continue;
    Stall& s = by_name[row.name];
    s.name = row.name;
    s.ns += row.dur;
    ++s.count;
  }
  TS_TRY(rows.status());
  double all_ns = 0;
  for (const RankFigures& r : job.ranks)
    for (const StepFigures& f : r.steps) all_ns += static_cast<double>(f.end - f.ts);
  std::vector<Stall> stalls;
  for (const auto& [name, s] : by_name)
    if (static_cast<double>(s.ns) >= kLeast * all_ns) stalls.push_back(s);
  std::sort(stalls.begin(), stalls.end(), [](const Stall& a, const Stall& b) { return a.ns > b.ns; });
  for (size_t i = 0; i < stalls.size() && i < kMost; ++i) {
    const Stall& s = stalls[i];
    char share[32];
    std::snprintf(share, sizeof share, "%.1f %%", 100 * static_cast<double>(s.ns) / all_ns);
    out.notes.push_back("hosts wait for the GPU in " +
                        std::string(names.text(static_cast<uint32_t>(s.name)).substr(model::kStall.size())) + ": " +
                        counted(s.count, "time") + ", " + share +
                        " of the steps; nothing is launched meanwhile, so read such values less often");
  }
  return {};
}

}  // namespace tracesmith::analysis
