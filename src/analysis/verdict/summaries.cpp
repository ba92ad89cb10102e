// What ranks did in each step, from a trace that keeps no more than that.
#include <algorithm>
#include <set>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr int64_t kMostNs = 1ll << 56;  // two years: sums of a few stay in 64 bits

/// Not measured, or not possible: nothing.
int64_t ns(int64_t slot) { return slot < 0 || slot > kMostNs ? 0 : slot; }

StepFigures figuresOf(const StepSummaryRow& row) {
  StepFigures f;
  f.step = row.step;
  f.ts = row.ts;
  f.end = row.ts + row.dur;
  f.phase_ns[0] = ns(row.forward);
  f.phase_ns[1] = ns(row.backward);
  f.phase_ns[2] = ns(row.optimizer);
  f.other_ns = ns(row.other);
  f.copy_ns = ns(row.copies);
  f.data_ns = ns(row.data) + f.copy_ns;
  f.exposed_comm_ns = ns(row.exposed_comm);
  f.hidden_comm_ns = ns(row.hidden_comm);
  f.idle_ns = ns(row.idle);
  f.missing_ns = ns(row.missing);
  f.host_late_ns = ns(row.host_late);
  f.to_host_ns = ns(row.to_host);
  f.pause_ns[static_cast<int>(Pause::checkpoint)] = ns(row.checkpoint);
  f.pause_ns[static_cast<int>(Pause::collection)] = ns(row.collection);
  f.gaps.short_count = static_cast<uint64_t>(ns(row.short_gaps));
  f.gaps.short_ns = ns(row.short_gaps_ns);
  f.gaps.long_count = static_cast<uint64_t>(ns(row.long_gaps));
  f.gaps.long_ns = ns(row.long_gaps_ns);
  return f;
}

/// Steps, by the best way of all that they are known by.
Status readSteps(const Reader& reader, const trace::NameNumbers& names, std::map<int64_t, RankFigures>& ranks,
                 StepSource& source) {
  auto sourceOf = [&](int64_t name) {
    for (int s = 0; name != kNull && s < static_cast<int>(StepSource::none); ++s)
      if (names.text(static_cast<uint32_t>(name)) == kStepSources[s]) return static_cast<StepSource>(s);
    return StepSource::none;
  };
  source = StepSource::none;
  auto each = [&](auto visit) {
    return eachRow<StepSummaryRow>(reader, names, {}, [&](const StepSummaryRow& row, auto&&) {
      int64_t end;
      if (row.ts != kNull && row.dur > 0 && !__builtin_add_overflow(row.ts, row.dur, &end))
        visit(row, sourceOf(row.steps_by));
    });
  };
  TS_TRY(each([&](const StepSummaryRow&, StepSource s) { source = std::min(source, s); }));
  TS_TRY(each([&](const StepSummaryRow& row, StepSource s) {
    if (s != source) return;  // of before the first step was marked
    RankFigures& rank = ranks[processOf(row.rank, row.pid)];
    rank.phases_known |= row.forward != kNull;
    rank.steps.push_back(figuresOf(row));
  }));
  for (auto& [process, rank] : ranks) {
    rank.process = process;
    std::stable_sort(rank.steps.begin(), rank.steps.end(),
                     [](const StepFigures& a, const StepFigures& b) { return a.ts < b.ts; });
  }
  return {};
}

}  // namespace

Result<StepSource> readSummaries(const Reader& reader, const FigureContext& context, JobData& job, Analysis& out) {
  const PartTable& parts = job.table;
  StepSource source = StepSource::none;
  std::map<int64_t, RankFigures> ranks;
  TS_TRY(readSteps(reader, context.names, ranks, source));
  if (source == StepSource::windows)  // have no numbers of their own: those at one time are compared
    for (auto& [process, rank] : ranks)
      for (StepFigures& f : rank.steps)
        f.step = clockOf(job.clocks, parts.domain(process)).toReference(f.ts + (f.end - f.ts) / 2) / kSummaryWindowNs;
  std::set<uint32_t> comm;  // kernels of operations, whatever they are called
  for (const Part& p : parts.parts) comm.insert(p.kernel);
  namespace e = event_summaries;
  const std::vector<int> columns = {e::ts, e::type, e::name, e::rank, e::pid, e::launch, e::count, e::total};
  TS_TRY(eachRow<EventSummaryRow>(reader, context.names, columns, [&](const EventSummaryRow& row, auto&&) {
    const auto count = static_cast<uint64_t>(ns(row.count));
    out.events += count;
    auto rank = ranks.find(processOf(row.rank, row.pid));
    if (rank == ranks.end() || row.type != static_cast<int64_t>(EventType::kernel) || row.name == kNull) return;
    auto& steps = rank->second.steps;
    auto f = std::lower_bound(steps.begin(), steps.end(), row.ts,
                              [](const StepFigures& s, int64_t ts) { return s.ts < ts; });
    if (f == steps.end() || f->ts != row.ts || count == 0) return;
    const auto name = static_cast<uint32_t>(row.name);
    KernelSum& sum = rank->second.kernels[name];
    sum.count += count;
    sum.ns += ns(row.total);
    if (context.rules[name] || comm.contains(name)) return;
    const auto total = static_cast<double>(ns(row.total));
    const uint32_t shape = row.launch == kNull ? trace::kNoName : static_cast<uint32_t>(row.launch);
    const uint32_t model = context.models ? context.models->of(rank->first) : 0;  // of its GPU
    const KernelReference::Mean* usual = context.reference.of(name, shape, model);
    if (!usual) return;
    if (usual->several || context.reference.alone(model)) {
      f->actual_ns += total;
      f->expected_ns += static_cast<double>(count) * usual->mean;
    } else {
      f->own_ns += total;
    }
  }));
  for (auto& [process, rank] : ranks) job.ranks.push_back(std::move(rank));
  const WorkPlace place = workPlaceOf(reader, context.names);
  job.host_only = place == WorkPlace::host;
  job.device_lost = place == WorkPlace::lost;
  if (job.host_only)
    for (RankFigures& r : job.ranks)
      for (StepFigures& f : r.steps) f.own_ns = static_cast<double>(f.computeNs());
  out.ranks = static_cast<int>(job.ranks.size());
  out.notes.push_back(
      "the trace is a summary (--keep summary): events are counted by name and step, and only those that took much "
      "longer than usual are in it one by one");
  return source;
}

}  // namespace tracesmith::analysis
