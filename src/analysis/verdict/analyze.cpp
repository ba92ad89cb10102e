#include <algorithm>
#include <future>
#include <mutex>

#include "analysis/collectives/rejoin.hpp"
#include "analysis/hta/hta.hpp"
#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "analysis/verdict/job_time.hpp"
#include "analysis/verdict/unfinished.hpp"
#include "base/count.hpp"
#include "sync/recording_span.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {
double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

class Analyzer {
 public:
  Analyzer(const Reader& reader, const AnalyzeOptions& options) : reader_(reader), options_(options) {}

  /// What is known rank by rank. `window_ns`: of ranks without marked steps, see FigureContext; 0: steps are found.
  Status load(int64_t window_ns = 0) {
    if (!options_.comm_rules.empty()) TS_TRY(rules_.addFile(options_.comm_rules));
    Result<trace::NameNumbers> names = trace::NameNumbers::load(reader_);
    if (!names) return names.status();
    names_ = std::make_unique<trace::NameNumbers>(std::move(*names)), summary_ = isSummary(reader_),
    window_ns_ = window_ns;
    Result<TraceSteps> steps = TraceSteps::load(reader_, *names_, options_.marks);
    if (!steps) return steps.status();
    Result<DeviceModels> models = DeviceModels::load(reader_, *names_);
    if (!models) return models.status();
    job_.models = std::move(*models);
    auto sample = [&] {
      return std::async(threadsOf(options_.threads) > 1 ? std::launch::async : std::launch::deferred,
                        [&] { return KernelReference::sample(reader_, *names_, job_.models); });
    };
    std::future<KernelReference> reference;
    if (!job_.models.several()) reference = sample();
    Result<PartTable> table = loadParts(reader_, *names_);
    if (!table) return table.status();
    job_.table = std::move(*table);
    Result<Rejoined> rejoined = summary_ ? Rejoined() : rejoinKernels(reader_, *names_, job_.table);
    if (!rejoined) return rejoined.status();
    mergeExchanges(job_.table);
    if (rejoined->moved + rejoined->without > 0) out_.notes.push_back(noteOf(*rejoined));
    if (!options_.marks)
      for (Part& p : job_.table.parts) p.step = -1;
    for (const auto& [process, parts] : job_.table.of_process)
      if (steps->source == StepSource::optimizer && !steps->optimizers.contains(process))
        steps->source = StepSource::none;
    if (window_ns_ > 0 && steps->source != StepSource::marks) steps->source = StepSource::none;
    if (steps->source == StepSource::none && !summary_ && window_ns_ == 0) {
      bool kernels = false;
      for (const Block* b : reader_.blocks(tableOf<EventRow>()))
        kernels |= b->types() >> static_cast<int>(EventType::kernel) & 1;
      findByOperations(job_.table, kernels, *steps);
      if (steps->by_process.empty()) {
        steps->try_kernels = true;
        cutByCollectives(job_.table, *steps);
      }
    }
    Result<trace::Clocks> clocks = trace::readClocks(reader_);
    if (!clocks) return clocks.status();
    job_.clocks = std::move(*clocks);
    if (const auto span = sync::recordingSpan(reader_, job_.clocks)) out_.duration_us = us(span->end - span->start);
    Result<Telemetry> telemetry = Telemetry::load(reader_, *names_);
    if (!telemetry) return telemetry.status();
    job_.telemetry = std::move(*telemetry);
    TS_TRY(sideTables());
    if (!reference.valid()) reference = sample();  // now it is known who has which
    const KernelReference usual = reference.get();
    source_ = steps->source;
    if (window_ns_ > 0 && source_ == StepSource::none) source_ = StepSource::windows;
    if (summary_) return eachSummary(*steps, usual);
    TS_TRY(eachEvent(*steps, usual));
    if (steps->try_kernels) {
      size_t found = 0;
      for (const RankFigures& r : job_.ranks) found += r.by_kernels;
      if (found > 0 && found < job_.ranks.size()) {
        // Steps of some ranks cannot be compared with stretches of others.
        steps->try_kernels = false;
        for (Part& p : job_.table.parts) p.step = -1;
        TS_TRY(eachEvent(*steps, usual));
      } else if (found > 0) {
        source_ = StepSource::kernels;
      }
    }
    return byBehaviour(*steps, usual);
  }

  RankData take() { return {std::move(*names_), std::move(job_), source_, std::move(comm_)}; }

  /// `times`: only what findJobTime fills.
  Result<Analysis> run(bool times = false) {
    TS_TRY(load());
    TS_TRY(match(reader_, *names_, job_.table));
    settleClocks(job_, out_);
    out_.steps_by = kStepSources[static_cast<int>(source_)];
    sumUpSteps(job_, source_, out_);
    leaveOutStartUp(job_, source_);
    out_.job_us = job_.step_ns > 0 ? us(job_.end - job_.start) : out_.duration_us;
    if (job_.step_ns > 0)
      if (const auto by_job = sync::recordingSpan(reader_, job_.clocks))  // its clocks may be others than the trace's
        out_.startup_us = std::max(0.0, us(job_.start - by_job->start));
    if (times) return std::move(out_);
    TS_TRY(blame());
    const uint64_t off_clock = listCollectives(job_, roots_, options_.collectives, out_);
    findTraffic(job_, *names_, out_);
    job_.work = deviceWork(job_.ranks);
    out_.kernels = largestKernels(job_, *names_, comm_, options_.kernels);
    sayUnknowns(reader_, job_, source_, off_clock, out_);
    TS_TRY(sayHooks(reader_, *names_, job_, comm_, options_.threads, out_));
    out_.verdict = makeVerdict(job_, out_);
    if (const std::optional<OwnLoss> loss = ownLoss(job_, out_); loss && loss->cause != Cause::busy)
      out_.verdict.own_loss = loss->cause;
    if (const auto unfinished = findUnfinished(reader_, *names_, job_, out_.world_size)) {
      sayHang(*unfinished, job_, out_.verdict);
      out_.verdict.where = lastPlaces(reader_, unfinished->all_entered ? unfinished->entered : unfinished->missing);
    }
    if (options_.excerpt) {
      Result<std::optional<Excerpt>> excerpt = worstCollective(reader_, rules_, job_, roots_, out_.verdict.rank);
      if (!excerpt) return excerpt.status();
      out_.excerpt = std::move(*excerpt);
    }
    return std::move(out_);
  }

 private:
  Status sideTables() {
    auto text = [&](int64_t slot) {
      return slot == kNull ? std::string() : std::string(names_->text(static_cast<uint32_t>(slot)));
    };
    TS_TRY(
        eachRow<LossRow>(reader_, *names_, {losses::rank, losses::pid, losses::cause, losses::count, losses::detail},
                         [&](const LossRow& row, auto&& get) {
                           const uint64_t count = row.count == kNull ? 0 : static_cast<uint64_t>(row.count);
                           out_.losses.push_back({text(row.cause), count, row.rank, std::string(get(losses::detail))});
                           if (row.rank != kNull) job_.lost[row.rank] += count;
                         }));
    TS_TRY(eachRow<ProcessRow>(
        reader_, *names_, {processes::rank, processes::pid, processes::world_size, processes::local_rank},
        [&](const ProcessRow& row, auto&&) {
          if (row.world_size != kNull)
            out_.world_size = std::max(out_.world_size.value_or(0), static_cast<int>(row.world_size));
          if (row.rank != kNull && row.local_rank != kNull) job_.device_of[row.rank] = row.local_rank;
        }));
    TS_TRY(readRoles(reader_, *names_, job_));
    for (const auto& [rank, device] : job_.table.device_of) job_.device_of[rank] = device;
    std::map<std::string, size_t> ranks;
    for (const auto& [process, range] : job_.table.of_process) ++ranks[job_.nodeOf(process)];
    for (const auto& [node, count] : ranks) {
      const size_t gpus = job_.models.gpusOf(node);
      job_.gpus_shared |= gpus > 0 && count > gpus;
    }
    for (const auto& [process, device] : job_.device_of) job_.models.place(process, job_.nodeOf(process), device);
    return {};
  }

  /// The one pass over all events, rank by rank.
  Status eachEvent(const TraceSteps& steps, const KernelReference& reference) {
    Result<Coverage> coverage = Coverage::load(reader_, *names_);
    if (!coverage) return coverage.status();
    FigureContext context(*names_, steps, reference, rules_);
    context.models = &job_.models;
    if (steps.source == StepSource::none) context.window_ns = window_ns_;
    context.synchronising = synchronising_;
    if (!coverage->whole()) {
      context.coverage = &*coverage;
      if (job_.ranks.empty())
        out_.notes.push_back(
            "the GPU was not recorded all the time (watch mode): where the time goes is known for the steps "
            "in which it was");
    }
    const WorkPlace place = workPlaceOf(reader_, *names_);
    context.host_only = job_.host_only = place == WorkPlace::host;
    context.device_lost = job_.device_lost = place == WorkPlace::lost;
    Result<HtaClock> clock = HtaClock::of(reader_, *names_);
    if (!clock) return clock.status();
    HtaAnalysis hta(*names_, steps, *clock, context.coverage);
    RankRowsOptions options;
    options.threads = options_.threads;
    options.wanted_ranges = &context.wanted;
    options.host_work = job_.host_only;
    options.progress = options_.progress;
    std::mutex mutex;
    job_.ranks.clear();
    recognised_.clear();
    auto visit = [&](RankRows& rows, size_t) {
      const Launches launches(rows);
      if (options_.hta) hta.add(rows, launches);
      std::span<Part> parts;
      if (auto it = job_.table.of_process.find(rows.process); it != job_.table.of_process.end())
        parts = std::span(job_.table.parts).subspan(it->second.first, it->second.second - it->second.first);
      RankFigures figures = rankFigures(context, rows, launches, parts);
      std::lock_guard lock(mutex);
      recognised_.insert(recognised_.end(), figures.recognised.begin(), figures.recognised.end());
      figures.recognised = {};
      const bool called = job_.device_lost && !rows.calls.empty();
      const bool phased = job_.host_only && figures.phases_known && !figures.steps.empty();  // one process alone
      if (!rows.device.empty() || !parts.empty() || !rows.work.empty() || called || phased)
        job_.ranks.push_back(std::move(figures));
    };
    TS_TRY(eachRank(reader_, *names_, options, visit));
    std::sort(job_.ranks.begin(), job_.ranks.end(),
              [](const RankFigures& a, const RankFigures& b) { return a.process < b.process; });
    comm_.clear();
    for (const model::CommRule* rule : context.rules) comm_.push_back(rule != nullptr);
    for (size_t n = 0; n < synchronising_.size(); ++n) comm_[n] |= synchronising_[n];
    out_.hta = hta.finish();
    out_.events = reader_.rows(tableOf<EventRow>());
    out_.ranks = static_cast<int>(job_.ranks.size());
    return {};
  }

  /// The same of a trace that has no events but what they add up to.
  Status eachSummary(const TraceSteps& steps, const KernelReference& reference) {
    FigureContext context(*names_, steps, reference, rules_);
    context.models = &job_.models;
    Result<StepSource> source = readSummaries(reader_, context, job_, out_);
    if (!source) return source.status();
    source_ = *source;
    for (const model::CommRule* rule : context.rules) comm_.push_back(rule != nullptr);
    return {};
  }

  /// Kernels that communicate though neither a row of `collectives` nor a rule says what they do.
  Status byBehaviour(const TraceSteps& steps, const KernelReference& usual) {
    std::map<int64_t, std::vector<KernelSample>> samples;
    for (RankFigures& r : job_.ranks) samples[r.process] = std::move(r.samples);
    const Synchronising found = Synchronising::find(samples, job_.table);
    samples.clear();
    for (uint32_t name : found.names()) {
      synchronising_.resize(names_->size());
      synchronising_[name] = 1;
    }
    if (std::any_of(synchronising_.begin(), synchronising_.end(), [](uint8_t s) { return s; }))
      TS_TRY(eachEvent(steps, usual));  // now they are no computation
    addParts(job_.table, std::move(recognised_));
    if (wereFound(source_)) numberFoundSteps(job_);
    if (found.empty()) return {};
    std::string list;
    for (uint32_t name : found.names()) list += (list.empty() ? "" : ", ") + std::string(names_->text(name));
    out_.notes.push_back(counted(found.apply(job_.table), "kernel") +
                         " began apart on the ranks of a group and ended together, again and again, and count as its "
                         "operations by their behaviour: " +
                         list);
    return {};
  }

  Status blame() {
    findStages(job_);
    job_.mixed = findMixed(job_);
    roots_ = rootsOf(job_);
    const std::vector<RankEvidence> evidence = rankEvidence(job_);
    out_.blame = blameRanks(job_, evidence, roots_);
    std::vector<LinkEvidence> links = findLinks(job_);
    TS_TRY(addProxyLinks(reader_, *names_, job_, links));
    if (!job_.table.instances.empty()) out_.critical_path = whatIf(job_, evidence, out_.blame, links);
    for (LinkEvidence& l : links) out_.links.push_back(std::move(l.result));
    return {};
  }

  const Reader& reader_;
  const AnalyzeOptions& options_;
  model::CommRules rules_;
  std::unique_ptr<trace::NameNumbers> names_;
  bool summary_ = false;
  int64_t window_ns_ = 0;
  JobData job_;
  std::vector<int32_t> roots_;
  StepSource source_ = StepSource::none;
  std::vector<Part> recognised_;        // by their kernels
  std::vector<uint8_t> synchronising_;  // by name: found by behaviour
  std::vector<uint8_t> comm_;           // by name: a kernel that communicates
  Analysis out_;
};

}  // namespace

Result<RankData> loadRanks(const Reader& reader, const AnalyzeOptions& options, int64_t window_ns) {
  Analyzer analyzer(reader, options);
  TS_TRY(analyzer.load(window_ns));
  return analyzer.take();
}

Result<Analysis> analyze(const Reader& reader, const AnalyzeOptions& options) {
  Result<Analysis> result = Analyzer(reader, options).run();
  if (result) result->simulated = trace::isSimulated(reader);
  return result;
}

Result<Analysis> findJobTime(const Reader& reader) {
  AnalyzeOptions options;
  options.hta = false;
  return Analyzer(reader, options).run(true);
}

}  // namespace tracesmith::analysis
