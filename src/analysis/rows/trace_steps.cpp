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

/// Several optimizers, one after the other, are one.
std::vector<Interval> oneOfEachStep(std::vector<Interval> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Interval& a, const Interval& b) { return a.from < b.from; });
  std::vector<int64_t> gaps;
  int64_t end = ranges.front().to, all = 0, sum = 0, usual = 0;
  for (const Interval& r : ranges) {
    gaps.push_back(std::max<int64_t>(0, r.from - end));
    all += gaps.back();
    end = std::max(end, r.to);
  }
  std::sort(gaps.begin(), gaps.end());
  for (size_t i = 0; i < gaps.size() && 2 * sum < all; ++i) sum += usual = gaps[i];  // that of the middle of all time
  std::vector<Interval> out;
  for (const Interval& r : ranges)
    if (!out.empty() && 2 * (r.from - out.back().to) < usual)
      out.back().to = std::max(out.back().to, r.to);
    else
      out.push_back(r);
  return out;
}

/// Ranges that number steps; where there are none, those of optimizers.
Status addRanges(const Reader& reader, const trace::NameNumbers& names, bool marks, TraceSteps& out) {
  std::vector<int64_t> numbers;
  std::vector<uint8_t> optimizer;
  Selection selection;
  selection.types = 1ull << static_cast<int>(EventType::annotation);
  for (uint32_t n = 0; n < names.size(); ++n) {
    numbers.push_back(marks ? stepNumber(names.text(n)) : kNull);
    optimizer.push_back(names.text(n).starts_with("Optimizer.step#"));
    if (optimizer.back()) selection.types |= 1ull << static_cast<int>(EventType::cpu_op);  // in old profiles
  }
  RowCursor<EventRow> rows(
      reader, {events::ts, events::dur, events::name, events::rank, events::pid, events::stream, events::type},
      std::move(selection), &names);
  std::map<int64_t, std::vector<Interval>> optimizers;
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.ts == kNull || row.dur == kNull || row.name == kNull) continue;
    const int64_t process = processOf(row.rank, row.pid);
    const int64_t number = numbers[static_cast<size_t>(row.name)];
    if (number != kNull && row.type == static_cast<int64_t>(EventType::annotation))
      out.by_process[process].push_back({row.ts, row.ts + row.dur, number, kNull});
    if (optimizer[static_cast<size_t>(row.name)] && row.stream == kNull)  // the profiler repeats them for the device
      optimizers[process].push_back({row.ts, row.ts + row.dur});
  }
  TS_TRY(rows.status());
  if (!out.by_process.empty() || optimizers.empty()) return {};
  size_t least = SIZE_MAX, most = 0;
  for (auto& [process, ranges] : optimizers) {
    ranges = oneOfEachStep(std::move(ranges));
    least = std::min(least, ranges.size());
    most = std::max(most, ranges.size());
  }
  if (least < 2 || most - least > kMostEdges) return {};
  out.optimizers = std::move(optimizers);
  out.source = StepSource::optimizer;
  return {};
}

}  // namespace

Result<TraceSteps> TraceSteps::load(const Reader& reader, const trace::NameNumbers& names, bool marks) {
  TraceSteps out;
  std::set<uint32_t> profiler;
  const std::vector<int> columns = {steps::ts, steps::dur, steps::rank, steps::pid, steps::step, steps::name};
  TS_TRY(eachRow<StepRow>(reader, names, columns, [&](const StepRow& row, auto&&) {
    int64_t end;
    if (row.ts == kNull || row.dur == kNull || row.step == kNull || __builtin_add_overflow(row.ts, row.dur, &end))
      return;
    const int64_t process = processOf(row.rank, row.pid);
    if (marks) out.by_process[process].push_back({row.ts, end, row.step, kNull});
    if (row.name == kNull || !names.text(static_cast<uint32_t>(row.name)).starts_with("ProfilerStep#")) return;
    profiler.insert(static_cast<uint32_t>(row.name));
    out.profiler_steps[process].push_back({row.ts, end, row.step, kNull});
    auto [it, fresh] = out.last_profiler_step.try_emplace(process, row.ts);
    if (!fresh) it->second = std::max(it->second, row.ts);
  }));
  out.profiler_names = profiler.size();
  if (out.by_process.empty()) TS_TRY(addRanges(reader, names, marks, out));
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
