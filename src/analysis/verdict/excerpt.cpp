// What the ranks of the most expensive collective did around it.
#include <algorithm>

#include "analysis/verdict/job_data.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr size_t kLanes = 16;
constexpr size_t kBars = 1500;  // of a lane: more cannot be told apart

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

/// The culprit, the first to come, and others evenly between: at most kLanes parts.
std::vector<uint32_t> chooseParts(const PartTable& t, const Instance& in) {
  std::vector<uint32_t> parts(t.order.begin() + in.first, t.order.begin() + in.first + in.count);
  if (parts.size() > kLanes) {
    std::vector<uint32_t> some = {static_cast<uint32_t>(in.last_part)};
    some.push_back(*std::min_element(parts.begin(), parts.end(),
                                     [&](uint32_t a, uint32_t b) { return t.parts[a].ts < t.parts[b].ts; }));
    for (size_t i = 0; some.size() < kLanes && i < parts.size(); i += std::max<size_t>(1, parts.size() / kLanes))
      if (std::find(some.begin(), some.end(), parts[i]) == some.end()) some.push_back(parts[i]);
    parts.swap(some);
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Result<std::optional<Excerpt>> worstCollective(const Reader& reader, const model::CommRules& rules, const JobData& job,
                                               const std::vector<int32_t>& roots, int64_t culprit) {
  const PartTable& t = job.table;
  const Instance* worst = nullptr;
  // One that shows what the verdict says, where there is one.
  auto weight = [&](const Instance& in) {
    const bool shows = culprit != kNull && in.exposed_wait_ns > 0 &&
                       job.rankOf(t.parts[static_cast<size_t>(in.last_part)].process) == culprit;
    return std::pair(shows, in.exposed_wait_ns);
  };
  for (size_t i = 0; i < t.instances.size(); ++i) {
    // Ranks do not begin together: what they waited in the first step says nothing.
    const bool warm = job.steps.size() < 3 || t.instances[i].step < 0 || t.instances[i].step > job.steps.front();
    if (roots[i] != kNobody && warm && (!worst || weight(t.instances[i]) > weight(*worst))) worst = &t.instances[i];
  }
  if (!worst || worst->wait_ns == 0) return std::optional<Excerpt>();
  const Instance& in = *worst;
  Excerpt out;
  out.group = t.comms[in.comm].name;
  out.op = opName(in.op);
  out.index = in.index;
  out.step = in.step < 0 ? kNull : in.step;
  out.ranks = static_cast<int>(in.count);
  out.culprit_rank = job.rankOf(t.parts[static_cast<size_t>(in.last_part)].process);
  out.wait_us_total = us(in.wait_ns);
  const int64_t skew = in.last_start - in.first_start;
  const int64_t from = in.first_start - std::max<int64_t>(skew / 3, 20'000);
  const int64_t to = in.last_end + std::max<int64_t>((in.last_end - from) / 20, 10'000);
  out.length_us = us(to - from);
  out.last_arrival_us = us(in.last_start - from);
  for (uint32_t at : chooseParts(t, in)) {
    const Part& part = t.parts[at];
    const trace::ClockTable& clock = clockOf(job.clocks, t.domain(part.process));
    Excerpt::Lane lane{job.rankOf(part.process), job.nodeOf(part.process), us(part.ts - from), {}};
    Selection selection;
    selection.from = clock.toRaw(from);
    selection.to = clock.toRaw(to);
    if (lane.rank != kNull) selection.ranks = {lane.rank};
    selection.types = 1ull << static_cast<int>(EventType::kernel) | 1ull << static_cast<int>(EventType::memcpy) |
                      1ull << static_cast<int>(EventType::memset);
    RowCursor<EventRow> rows(reader, {events::ts, events::dur, events::type, events::name, events::correlation},
                             std::move(selection));
    while (lane.bars.size() < kBars && rows.next()) {
      const EventRow& row = rows.row();
      if (row.ts == kNull || row.dur == kNull) continue;
      const int64_t start = clock.toReference(row.ts), end = start + row.dur;
      const std::string_view name = rows.text(events::name);
      const bool is_part = start == part.ts || (part.correlation != kNull && row.correlation == part.correlation);
      Excerpt::Bar bar;
      bar.from_us = std::max(0.0, us(start - from));
      bar.to_us = std::min(out.length_us, us(end - from));
      bar.name = name;
      bar.kind = is_part                                                 ? Excerpt::Bar::this_one
                 : static_cast<EventType>(row.type) != EventType::kernel ? Excerpt::Bar::copy
                 : rules.match(name)                                     ? Excerpt::Bar::communication
                                                                         : Excerpt::Bar::compute;
      if (bar.to_us > bar.from_us) lane.bars.push_back(std::move(bar));
    }
    TS_TRY(rows.status());
    out.lanes.push_back(std::move(lane));
  }
  return std::optional<Excerpt>(std::move(out));
}

}  // namespace tracesmith::analysis
