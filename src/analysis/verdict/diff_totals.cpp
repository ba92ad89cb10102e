#include "analysis/verdict/diff_totals.hpp"

#include <algorithm>

#include "analysis/rows/each_row.hpp"
#include "analysis/rows/rank_rows.hpp"
#include "analysis/rows/trace_steps.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

/// Of a summary every event is in `event_summaries`, and what is in no step is start-up, where there are steps.
Result<NameTotals> summaryTotals(const Reader& reader, const trace::NameNumbers& names, const DiffOptions& options) {
  NameTotals out;
  namespace e = event_summaries;
  const std::vector<int> columns = {e::type, e::name, e::rank, e::step, e::count, e::total};
  auto each = [&](auto visit) {
    return eachRow<EventSummaryRow>(reader, names, columns, [&](const EventSummaryRow& row, auto&&) {
      if (row.name != kNull && row.count > 0 && row.total >= 0) visit(row);
    });
  };
  out.rank = options.rank;
  out.step = options.step;
  auto least = [](int64_t a, int64_t b) { return a == kNull || (b != kNull && b < a) ? b : a; };
  TS_TRY(each([&](const EventSummaryRow& row) {
    if (options.rank == kNull) out.rank = least(out.rank, row.rank);
    if (options.step == kNull) out.step = least(out.step, row.step);
    if (row.rank != kNull) out.ranks.insert(row.rank);
    if (row.step != kNull) out.steps.insert(row.step);
  }));
  TS_TRY(each([&](const EventSummaryRow& row) {
    const auto type = static_cast<EventType>(row.type);
    const std::pair key(isDeviceType(type) && type != EventType::gpu_annotation,
                        std::string(names.text(static_cast<uint32_t>(row.name))));
    auto add = [&](Total& t) {
      t.count += static_cast<double>(row.count);
      t.us += static_cast<double>(row.total) / 1000;
    };
    if (out.steps.empty() || row.step != kNull) add(out.all[key]);
    if (row.rank == out.rank && row.step == out.step && type != EventType::gpu_annotation) add(out.one[key]);
  }));
  return out;
}

}  // namespace

Result<NameTotals> totalsOf(const Reader& reader, const DiffOptions& options) {
  Result<trace::NameNumbers> names = trace::NameNumbers::load(reader);
  if (!names) return names.status();
  Result<TraceSteps> marked = TraceSteps::load(reader, *names);
  if (!marked) return marked.status();
  auto counted = [&](int64_t process, int64_t at) {
    const std::vector<RankStep>& steps = marked->of(process);
    return steps.empty() || (at >= steps.front().ts && at < steps.back().end);
  };
  NameTotals out;
  if (isSummary(reader)) return summaryTotals(reader, *names, options);
  const std::vector<const Block*> blocks = reader.blocks(tableOf<EventRow>());
  // The first rank and step are known from the zones alone.
  int64_t first_rank = INT64_MAX, first_step = INT64_MAX;
  for (const Block* b : blocks) {
    int64_t low, high;
    if (b->zone(events::rank, low, high)) first_rank = std::min(first_rank, low);
    if (b->zone(events::step, low, high)) first_step = std::min(first_step, low);
  }
  out.rank = options.rank != kNull ? options.rank : first_rank == INT64_MAX ? kNull : first_rank;
  out.step = options.step != kNull ? options.step : first_step == INT64_MAX ? kNull : first_step;
  std::vector<Total> all[2] = {std::vector<Total>(names->size()), std::vector<Total>(names->size())};
  std::vector<Total> one[2] = {all[0], all[0]};
  BlockDecoder decoder(reader);
  ColumnData ts, type, name, dur, rank, pid, step, stream;
  for (const Block* block : blocks) {
    if (!decoder.decode(*block, events::ts, ts) || !decoder.decode(*block, events::pid, pid) ||
        !decoder.decode(*block, events::type, type) || !decoder.decode(*block, events::name, name) ||
        !decoder.decode(*block, events::dur, dur) || !decoder.decode(*block, events::rank, rank) ||
        !decoder.decode(*block, events::step, step) || !decoder.decode(*block, events::stream, stream))
      continue;
    const std::vector<uint32_t>& numbers = names->stream(block->stream);
    for (uint32_t r = 0; r < block->rows; ++r) {
      if (!ts.valid(r) || !dur.valid(r) || !name.valid(r) || name.data<uint32_t>()[r] >= numbers.size()) continue;
      const auto kind = static_cast<EventType>(std::min<int>(type.data<uint8_t>()[r], kEventTypes - 1));
      const bool device = stream.valid(r) && kind != EventType::gpu_annotation;
      const uint32_t number = numbers[name.data<uint32_t>()[r]];
      const double us = static_cast<double>(dur.data<int64_t>()[r]) / 1000;
      const int64_t own_rank = rank.valid(r) ? rank.data<int32_t>()[r] : kNull;
      const int64_t own_step = step.valid(r) ? step.data<int64_t>()[r] : kNull;
      auto add = [&](Total& t) {
        ++t.count;
        t.us += us;
      };
      const int64_t process = processOf(own_rank, pid.valid(r) ? pid.data<int64_t>()[r] : kNull);
      if (counted(process, ts.data<int64_t>()[r])) add(all[device][number]);
      if (own_rank == out.rank && own_step == out.step && kind != EventType::gpu_annotation) add(one[device][number]);
      if (own_rank != kNull) out.ranks.insert(own_rank);
      if (own_step != kNull) out.steps.insert(own_step);
    }
  }
  for (int device = 0; device < 2; ++device)
    for (uint32_t n = 0; n < names->size(); ++n) {
      const std::string text(names->text(n));
      if (all[device][n].count > 0) out.all[{device, text}] = all[device][n];
      if (one[device][n].count > 0) out.one[{device, text}] = one[device][n];
    }
  return out;
}

}  // namespace tracesmith::analysis
