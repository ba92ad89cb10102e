#include "analysis/rows/trace_steps.hpp"

#include <algorithm>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// 12 for "step 12", or kNull.
int64_t stepNumber(std::string_view name) {
  for (std::string_view prefix : {"ProfilerStep#", "step ", "Step ", "step_", "iteration ", "iter ", "train_step "}) {
    int64_t number;
    if (name.starts_with(prefix) && parseInt(name.substr(prefix.size()), number)) return number;
  }
  return kNull;
}

Status addRanges(const Reader& reader, const Names& names, TraceSteps& out) {
  std::vector<int64_t> numbers;
  for (uint32_t n = 0; n < names.size(); ++n) numbers.push_back(stepNumber(names.text(n)));
  Selection selection;
  selection.types = 1ull << static_cast<int>(EventType::annotation);
  RowCursor<EventRow> rows(reader, {events::ts, events::dur, events::name, events::rank, events::pid},
                           std::move(selection), &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.ts == kNull || row.dur == kNull || row.name == kNull) continue;
    const int64_t number = numbers[static_cast<size_t>(row.name)];
    if (number != kNull)
      out.by_process[processOf(row.rank, row.pid)].push_back({row.ts, row.ts + row.dur, number, kNull});
  }
  return rows.status();
}

}  // namespace

Result<TraceSteps> TraceSteps::load(const Reader& reader, const Names& names) {
  TraceSteps out;
  std::set<uint32_t> profiler;
  const std::vector<int> columns = {steps::ts, steps::dur, steps::rank, steps::pid, steps::step, steps::name};
  TS_TRY(eachRow<StepRow>(reader, names, columns, [&](const StepRow& row, auto&&) {
    int64_t end;
    if (row.ts == kNull || row.dur == kNull || row.step == kNull || __builtin_add_overflow(row.ts, row.dur, &end))
      return;
    const int64_t process = processOf(row.rank, row.pid);
    out.by_process[process].push_back({row.ts, end, row.step, kNull});
    if (row.name == kNull || !names.text(static_cast<uint32_t>(row.name)).starts_with("ProfilerStep#")) return;
    profiler.insert(static_cast<uint32_t>(row.name));
    out.profiler_steps[process].push_back({row.ts, end, row.step, kNull});
    auto [it, fresh] = out.last_profiler_step.try_emplace(process, row.ts);
    if (!fresh) it->second = std::max(it->second, row.ts);
  }));
  out.profiler_names = profiler.size();
  if (out.by_process.empty()) TS_TRY(addRanges(reader, names, out));
  if (!out.by_process.empty()) out.source = StepSource::marks;
  for (auto* map : {&out.by_process, &out.profiler_steps})
    for (auto& [process, list] : *map)
      std::stable_sort(list.begin(), list.end(), [](const RankStep& a, const RankStep& b) { return a.ts < b.ts; });
  return out;
}

const std::vector<RankStep>& TraceSteps::of(int64_t process) const {
  static const std::vector<RankStep> none;
  auto it = by_process.find(process);
  return it == by_process.end() ? none : it->second;
}

}  // namespace tracesmith::analysis
