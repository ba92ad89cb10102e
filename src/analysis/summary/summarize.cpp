#include "analysis/summary/summarize.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "analysis/rows/each_row.hpp"
#include "analysis/summary/row_copy.hpp"
#include "analysis/verdict/job_data.hpp"
#include "model/coverage.hpp"

namespace tracesmith::analysis {

using namespace trace;

bool isOutlier(const Sketch& usual, int64_t ns) {
  const auto length = static_cast<double>(ns);
  return length > kOutlierMedian * usual.quantile(0.5) && length > kOutlierMost * usual.quantile(0.9) &&
         usual.count() >= kOutlierLeast;
}

namespace {

constexpr int64_t kLongestStepNs = 60'000'000'000;  // one that lasts longer is not waited for

bool runsOnDevice(const EventRow& row) {
  const auto type = static_cast<EventType>(row.type);
  return type == EventType::kernel || type == EventType::memcpy || type == EventType::memset;
}

/// All events of one kind in one step.
struct Sum {
  int64_t first = INT64_MAX, last = INT64_MIN;  // of those in no step
  int64_t count = 0, total = 0, shortest = INT64_MAX, longest = 0, bytes = kNull;
  Sketch sketch;
};

/// One process: its steps, and how far they go.
struct Process {
  const RankFigures* figures = nullptr;  // nullptr: it did nothing that is measured
  int64_t node = kNull, rank = kNull, pid = kNull;
  int64_t from = INT64_MIN, until = INT64_MAX;      // of this piece
  std::map<std::array<int64_t, 4>, Sketch> usual;   // of this piece, by type, name, launch shape and device
  std::map<size_t, std::vector<EventRow>> longest;  // by step: outliers

  /// Index of the step, or SIZE_MAX.
  size_t stepAt(int64_t ts) const {
    if (!figures) return SIZE_MAX;
    const std::vector<StepFigures>& steps = figures->steps;
    auto after =
        std::upper_bound(steps.begin(), steps.end(), ts, [](int64_t t, const StepFigures& f) { return t < f.ts; });
    if (after == steps.begin() || ts >= std::prev(after)->end) return SIZE_MAX;
    return static_cast<size_t>(after - steps.begin()) - 1;
  }
};

class Summarizer {
 public:
  Summarizer(const Reader& reader, Writer& out, const SummaryOptions& options, const RankData& data)
      : reader_(reader), options_(options), data_(data), out_(data.names, out) {
    if (options.later) later_.emplace(data.names, *options.later);
    for (uint32_t n = 0; n < data.names.size(); ++n) {
      phase_.push_back(phaseOfName(data.names.text(n)) != Phase::none);
      gpu_.push_back(data.names.text(n) == model::kGpuOn || data.names.text(n) == model::kGpuOff);
    }
  }

  Result<SummaryStats> run() {
    begin();
    TS_TRY(fold());
    TS_TRY(outliers());
    TS_TRY(stepRows());
    TS_TRY(eventRows());
    TS_TRY(collectiveRows());
    TS_TRY(otherTables());
    SummaryState unused, &state = options_.state ? *options_.state : unused;
    state.until = options_.until;
    for (auto& [number, p] : processes_) {
      state.processes[number].until = std::max(p.from, p.until);
      state.until = std::min(state.until, p.until);
      if (later_ && p.gpu_mark) TS_TRY(later_->put(*p.gpu_mark));
    }
    TS_TRY(out_.flush());
    if (later_) TS_TRY(later_->flush());
    return stats_;
  }

 private:
  struct Own : Process {
    std::optional<EventRow> gpu_mark;  // the last that says whether the GPU is recorded
  };

  /// Where each process is cut: where a step begins, and all of the one before has come.
  void begin() {
    for (const RankFigures& r : data_.job.ranks) {
      Own& p = of(r.process);
      p.figures = &r;
      if (options_.until == INT64_MAX) continue;
      for (const StepFigures& f : r.steps)
        if (f.ts <= options_.until) p.until = f.ts;
      if (p.until < options_.until - kLongestStepNs) p.until = options_.until;
    }
  }

  Own& of(int64_t number) {
    auto [it, fresh] = processes_.try_emplace(number);
    if (!fresh) return it->second;
    it->second.until = options_.until;
    if (options_.state) it->second.from = options_.state->processes[number].until;
    return it->second;
  }

  bool isLater(const Own& p, int64_t ts) const { return later_ && ts >= p.until; }

  /// Counts events, and finds what is usual.
  Status fold() {
    RowCursor<EventRow> rows(reader_, {}, {}, &data_.names);
    while (rows.next()) {
      const EventRow& row = rows.row();
      Own& p = of(processOf(row.rank, row.pid));
      if (row.node != kNull) p.node = row.node;
      if (row.rank != kNull) p.rank = row.rank;
      if (row.pid != kNull) p.pid = row.pid;
      const bool gpu = row.type == static_cast<int64_t>(EventType::marker) && row.name != kNull &&
                       gpu_[static_cast<size_t>(row.name)];
      if (row.ts == kNull || isLater(p, row.ts)) {
        if (later_) TS_TRY(later_->put(row, rows));
        continue;
      }
      if (gpu && (!p.gpu_mark || row.ts >= p.gpu_mark->ts)) p.gpu_mark = row;
      if (gpu && row.ts < p.from) continue;  // was told before
      ++stats_.events;
      if (kept(row)) {
        ++stats_.kept;
        TS_TRY(out_.put(row, rows));
      }
      if (row.dur == kNull || row.dur < 0) continue;
      const std::array<int64_t, 4> kind = {row.type, row.name, row.launch, row.device};
      const size_t step = p.stepAt(row.ts);
      add(sums_[{processOf(row.rank, row.pid), step}][kind], row);
      if (runsOnDevice(row)) p.usual[kind].add(row.dur);
    }
    return rows.status();
  }

  /// Marks, and ranges that say a phase of training.
  bool kept(const EventRow& row) const {
    const auto type = static_cast<EventType>(row.type);
    return type == EventType::marker ||
           (type == EventType::annotation && row.name != kNull && phase_[static_cast<size_t>(row.name)]);
  }

  static void add(Sum& sum, const EventRow& row) {
    ++sum.count;
    sum.total += row.dur;
    sum.shortest = std::min(sum.shortest, row.dur);
    sum.longest = std::max(sum.longest, row.dur);
    sum.first = std::min(sum.first, row.ts);
    sum.last = std::max(sum.last, row.ts + row.dur);
    if (row.bytes != kNull) sum.bytes = (sum.bytes == kNull ? 0 : sum.bytes) + row.bytes;
    sum.sketch.add(row.dur);
  }

  /// What took much longer than usual. Operations are rows of their own already.
  Status outliers() {
    Selection device;
    device.types = 1ull << static_cast<int>(EventType::kernel) | 1ull << static_cast<int>(EventType::memcpy) |
                   1ull << static_cast<int>(EventType::memset);
    RowCursor<EventRow> rows(reader_, {}, std::move(device), &data_.names);
    while (rows.next()) {
      const EventRow& row = rows.row();
      Own& p = of(processOf(row.rank, row.pid));
      if (row.ts == kNull || row.dur == kNull || row.name == kNull || isLater(p, row.ts)) continue;
      if (data_.comm[static_cast<size_t>(row.name)]) continue;
      auto usual = p.usual.find({row.type, row.name, row.launch, row.device});
      if (usual == p.usual.end() || !isOutlier(usual->second, row.dur)) continue;
      std::vector<EventRow>& longest = p.longest[p.stepAt(row.ts)];
      longest.push_back(row);
      longest.back().args = kNull;
      std::sort(longest.begin(), longest.end(), [](const EventRow& a, const EventRow& b) { return a.dur > b.dur; });
      if (longest.size() > kOutliers) longest.pop_back();
    }
    TS_TRY(rows.status());
    for (const auto& [number, p] : processes_)
      for (const auto& [step, longest] : p.longest)
        for (const EventRow& row : longest) {
          ++stats_.kept;
          TS_TRY(out_.put(row));
        }
    return {};
  }

  template <typename Row>
  static Row rowOf(const Process& p) {
    Row row;
    row.node = p.node;
    row.rank = p.rank;
    row.pid = p.pid;
    return row;
  }

  /// Stretches of time have no numbers.
  int64_t stepOf(const StepFigures& f) const { return data_.source == StepSource::windows ? kNull : f.step; }

  Status stepRows() {
    for (const auto& [number, p] : processes_) {
      if (!p.figures) continue;
      for (const StepFigures& f : p.figures->steps) {
        if (f.ts < p.from || isLater(p, f.ts)) continue;
        auto row = rowOf<StepSummaryRow>(p);
        row.ts = f.ts;
        row.dur = f.end - f.ts;
        row.step = stepOf(f);
        row.steps_by = out_.name(kStepSources[static_cast<int>(data_.source)]);
        if (p.figures->phases_known) {
          row.forward = f.phase_ns[0];
          row.backward = f.phase_ns[1];
          row.optimizer = f.phase_ns[2];
        }
        row.other = f.other_ns;
        row.copies = f.copy_ns;
        row.data = f.data_ns - f.copy_ns;
        row.exposed_comm = f.exposed_comm_ns;
        row.hidden_comm = f.hidden_comm_ns;
        row.idle = f.idle_ns;
        row.missing = f.missing_ns;
        row.host_late = f.host_late_ns;
        row.to_host = f.to_host_ns;
        row.checkpoint = f.pause_ns[static_cast<int>(Pause::checkpoint)];
        row.collection = f.pause_ns[static_cast<int>(Pause::collection)];
        row.short_gaps = static_cast<int64_t>(f.gaps.short_count);
        row.short_gaps_ns = f.gaps.short_ns;
        row.long_gaps = static_cast<int64_t>(f.gaps.long_count);
        row.long_gaps_ns = f.gaps.long_ns;
        ++stats_.rank_steps;
        if (options_.state) options_.state->processes[number].begun = true;
        TS_TRY(out_.put(row));
      }
    }
    return {};
  }

  Status eventRows() {
    for (const auto& [where, kinds] : sums_) {
      const Own& p = of(where.first);
      const StepFigures* f = where.second == SIZE_MAX ? nullptr : &p.figures->steps[where.second];
      for (const auto& [kind, sum] : kinds) {
        auto row = rowOf<EventSummaryRow>(p);
        row.ts = f ? f->ts : sum.first;
        row.dur = (f ? f->end : sum.last) - row.ts;
        if (f) row.step = stepOf(*f);
        row.type = kind[0];
        row.name = kind[1];
        row.launch = kind[2];
        row.device = kind[3];
        row.count = sum.count;
        row.total = sum.total;
        row.shortest = sum.shortest;
        row.longest = sum.longest;
        row.bytes = sum.bytes;
        const std::string sketch = sum.sketch.text();
        TS_TRY(out_.put(row, event_summaries::sketch, sketch.empty() ? std::string_view() : sketch));
      }
    }
    return {};
  }

  /// With what the analysis found for them. Kernels that it took for operations get a row, too.
  Status collectiveRows() {
    std::vector<const Part*> of_row(reader_.rows(tableOf<CollectiveRow>()), nullptr);
    std::vector<const Part*> recognised;
    for (const Part& p : data_.job.table.merged)
      if (p.row < of_row.size()) of_row[p.row] = &p;
    for (const Part& p : data_.job.table.parts)
      if (p.row < of_row.size())
        of_row[p.row] = &p;
      else
        recognised.push_back(&p);
    RowCursor<CollectiveRow> rows(reader_, {}, {}, &data_.names);
    for (size_t i = 0; rows.next(); ++i) {
      CollectiveRow row = rows.row();
      const Part* part = i < of_row.size() ? of_row[i] : nullptr;
      const int64_t ts = part ? part->ts : row.ts != kNull ? row.ts : row.ts_enqueue;
      if (ts != kNull && isLater(of(processOf(row.rank, row.pid)), ts)) {
        TS_TRY(later_->put(row, rows));
        continue;
      }
      if (part)
        fill(row, *part);
      else if (row.ts != kNull)
        row.dur = kNull;  // the kernel is that of another operation
      TS_TRY(out_.put(row, rows));
    }
    TS_TRY(rows.status());
    for (const Part* part : recognised) {
      const Own& p = of(part->process);
      if (part->ts < p.from || isLater(p, part->ts)) continue;
      auto row = rowOf<CollectiveRow>(p);
      row.op = out_.name(opName(part->op));
      if (part->comm < data_.names.size()) row.comm = part->comm;
      row.seq = part->seq;
      if (part->group_size > 0) row.group_size = part->group_size;
      fill(row, *part);
      TS_TRY(out_.put(row));
    }
    return {};
  }

  void fill(CollectiveRow& row, const Part& p) {
    int64_t* late = options_.state ? &options_.state->processes[p.process].host_late : nullptr;
    row.ts = p.ts;
    row.dur = p.end - p.ts;
    row.correlation = p.correlation;
    if (p.kernel != trace::kNoName) row.name = p.kernel;
    if (p.stream >= 0) row.stream = p.stream;
    row.step = p.step >= 0 && data_.source != StepSource::windows ? p.step : kNull;
    row.exposed = p.exposed_ns;
    row.slack = p.slack_ns;
    row.host_late = p.late_before_ns + late_before(p.process);
    row.host_late_end = p.late_ns + late_before(p.process);
    row.blocks = p.blocks;
    if (late) *late = std::max(*late, row.host_late_end);
  }

  /// Until this piece began.
  int64_t late_before(int64_t process) {
    auto [it, fresh] = late_before_.try_emplace(process, 0);
    if (fresh && options_.state) it->second = options_.state->processes[process].host_late;
    return it->second;
  }

  /// As they are; arrows between events that are no more are not.
  Status otherTables() {
    for (const TableInfo& table : tables()) {
      if (&table == &tableOf<EventRow>() || &table == &tableOf<CollectiveRow>() || &table == &tableOf<FlowRow>())
        continue;
      const bool steps = &table == &tableOf<StepRow>();
      SlotCursor rows(reader_, table, {}, {}, &data_.names);
      while (rows.next()) {
        bool waits = false;
        if (steps) {
          const StepRow& row = *reinterpret_cast<const StepRow*>(rows.slots());
          waits = row.ts != kNull && isLater(of(processOf(row.rank, row.pid)), row.ts);
        }
        TS_TRY((waits ? *later_ : out_).put(table, rows));
      }
      TS_TRY(rows.status());
    }
    return {};
  }

  const Reader& reader_;
  const SummaryOptions& options_;
  const RankData& data_;
  RowCopy out_;
  std::optional<RowCopy> later_;
  std::vector<uint8_t> phase_, gpu_;  // by name
  std::map<int64_t, Own> processes_;
  std::map<std::pair<int64_t, size_t>, std::map<std::array<int64_t, 4>, Sum>> sums_;  // by process and step
  std::map<int64_t, int64_t> late_before_;                                            // by process
  SummaryStats stats_;
};

/// Stretches of a later piece begin where those of the one before it end, though nothing may have happened for a while.
void joinStretches(std::vector<StepFigures>& steps, const SummaryState::Process& before, int64_t window_ns) {
  if (steps.empty() || !before.begun) return;
  std::vector<StepFigures> idle;
  for (int64_t at = before.until; at < steps.front().ts;) {
    const int64_t border = (at / window_ns + 1) * window_ns;
    if (border > steps.front().ts) {
      steps.front().idle_ns += steps.front().ts - at;
      steps.front().ts = at;
      break;
    }
    StepFigures f;
    f.step = at / window_ns;
    f.ts = at;
    f.end = at = border;
    f.idle_ns = f.end - f.ts;
    idle.push_back(f);
  }
  steps.insert(steps.begin(), idle.begin(), idle.end());
}

}  // namespace

Result<SummaryStats> summarize(const Reader& whole, Writer& out, const SummaryOptions& options) {
  if (isSummary(whole)) return Status::invalid(whole.path() + " is a summary already");
  AnalyzeOptions analyze;
  analyze.threads = options.threads;
  analyze.hta = false;
  Result<RankData> data = loadRanks(whole, analyze, options.window_ns);
  if (!data) return data.status();
  if (options.state && data->source == StepSource::windows)
    for (RankFigures& r : data->job.ranks)
      joinStretches(r.steps, options.state->processes[r.process], options.window_ns);
  return Summarizer(whole, out, options, *data).run();
}

}  // namespace tracesmith::analysis
