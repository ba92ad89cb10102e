#include <algorithm>
#include <future>
#include <mutex>
#include <set>

#include "analysis/clocks/clock_refine.hpp"
#include "analysis/collectives/rejoin.hpp"
#include "analysis/hta/hta.hpp"
#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "analysis/verdict/job_time.hpp"
#include "analysis/verdict/unfinished.hpp"
#include "base/count.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "sync/recording_span.hpp"
#include "tracesmith/trace/scan.hpp"

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
    clocksAndTimes();
    out_.steps_by = kStepSources[static_cast<int>(source_)];
    sumUpSteps(job_, source_, out_);
    leaveOutStartUp(job_, source_);
    out_.job_us = job_.step_ns > 0 ? us(job_.end - job_.start) : out_.duration_us;
    if (job_.step_ns > 0)
      if (const auto by_job = sync::recordingSpan(reader_, job_.clocks))  // its clocks may be others than the trace's
        out_.startup_us = std::max(0.0, us(job_.start - by_job->start));
    if (times) return std::move(out_);
    TS_TRY(blame());
    off_clock_ = listCollectives(job_, roots_, options_.collectives, out_);
    findTraffic(job_, *names_, out_);
    job_.work = deviceWork(job_.ranks);
    out_.kernels = largestKernels(job_, *names_, comm_, options_.kernels);
    say();
    TS_TRY(sayHooks(reader_, *names_, job_, comm_, options_.threads, out_));
    out_.verdict = makeVerdict(job_, out_);
    if (const auto unfinished = findUnfinished(reader_, *names_, job_, out_.world_size))
      sayHang(*unfinished, job_, out_.verdict);
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
    HtaAnalysis hta(*names_, steps, context.coverage);
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
      if (!rows.device.empty() || !parts.empty() || !rows.work.empty() || called)
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

  void clocksAndTimes() {
    if (const uint64_t impossible = findImpossible(job_.table))
      out_.unknowns.push_back(
          counted(impossible, "collective") + (impossible == 1 ? " has" : " have") +
          " ranks that left before another one of the same node arrived: " + (impossible == 1 ? "it is" : "they are") +
          " not one operation and " + (impossible == 1 ? "was" : "were") + " left out");
    std::vector<std::string> missing;
    for (const std::string& d : job_.table.domains)
      if (!job_.clocks.contains(d)) missing.push_back(d);
    const std::vector<std::string> lost = estimateClocks(job_.table, job_.clocks);
    job_.clocks_known = lost.empty();
    if (job_.table.domains.size() > 1 && !missing.empty())
      out_.unknowns.push_back(
          "the clocks of " + std::to_string(missing.size()) + " of " + std::to_string(job_.table.domains.size()) +
          " nodes or ranks are not in the trace; " +
          (lost.empty() ? "they were estimated from collectives that end together"
                        : "for " + std::to_string(lost.size()) +
                              " of them there are no collectives to estimate from, so who was late there is unknown"));
    const Contradictions found = contradictions(job_.table, job_.clocks);
    if (job_.table.domains.size() > 1 && found.wrong * 20 > found.checked) {
      // What the trace says about its clocks cannot be: ranks would leave collectives before the last came.
      job_.clocks.clear();
      job_.clocks_known = estimateClocks(job_.table, job_.clocks).empty();
      out_.unknowns.push_back("the clocks in the trace contradict the collectives (" + std::to_string(found.wrong) +
                              " of " + std::to_string(found.checked) +
                              " checked); they were estimated from collectives that end together");
    }
    const Refinement refined = refineClocks(job_.table, job_.clocks);
    for (const std::string& fault : refined.faults) out_.unknowns.push_back("clock fault: " + fault);
    settle(job_.table, job_.clocks);
    if (job_.host_only) trimHostEnds(job_.table);
    for (const std::string& d : job_.table.domains) {
      if (const trace::ClockTable& clock = clockOf(job_.clocks, d); !clock.empty()) {
        const trace::ClockModel& m = clock.models().back();
        out_.clocks.push_back({d, m.offset_ns, m.drift_ppm, m.valid() ? m.bound_ns : kNull, m.method});
      } else {
        out_.clocks.push_back({d, 0, 0, kNull, job_.table.domains.size() == 1 ? "reference" : "unknown"});
      }
    }
    std::set<std::string> nodes;
    for (const auto& [process, node] : job_.table.node_of) nodes.insert(node);
    out_.nodes = static_cast<int>(nodes.size());
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

  void say() {
    auto add = [&](std::string s) { out_.unknowns.push_back(std::move(s)); };
    if (out_.world_size && *out_.world_size > out_.ranks && out_.ranks > 0)
      add(std::to_string(out_.ranks) + " of " + std::to_string(*out_.world_size) +
          " ranks are in the trace: the culprit may be one of the missing ranks");
    if (out_.incomplete > 0)
      add(std::to_string(out_.incomplete) + " of " + std::to_string(job_.table.instances.size()) +
          " collectives lack some of their ranks: their transfer time is unknown");
    if (off_clock_ > 0)
      add(std::to_string(off_clock_) +
          " collectives contradict the clocks (a rank left before the last one arrived) and were left out");
    if (out_.unmatched > 0)
      add(std::to_string(out_.unmatched) + " parts of collectives have ids that do not match and were left out");
    if (job_.device_lost)
      add("hosts launched kernels, but no kernel is in the trace: it was cut short, or the GPU was not recorded; where "
          "the time goes is unknown");
    if (job_.table.parts.empty()) add("cannot tell who waited: the trace has no collectives");
    static constexpr const char* kMark =
        "mark them in the training loop, with torch.cuda.nvtx.range_push(f\"step {i}\") and range_pop(), or with "
        "tracesmith_step_begin(i) and tracesmith_step_end()";
    if (wereFound(source_))
      out_.notes.push_back("steps are not marked: found " + counted(out_.steps.size(), "step") + " of " +
                           humanNs(job_.step_ns) + " by " +
                           (source_ == StepSource::optimizer    ? "the ranges of their optimizers"
                            : source_ == StepSource::operations ? "operations that repeat"
                                                                : "kernels that repeat") +
                           "; for exact ones, " + kMark);
    else if (source_ == StepSource::windows)
      add("no training steps are marked: the trace was divided by its collectives into " +
          std::to_string(job_.steps.size()) + " intervals, which count as steps; " + kMark);
    else if (job_.step_ns == 0)
      add(std::string("no training steps are marked: the whole trace counts as one step, so when a problem started is "
                      "unknown; ") +
          kMark);
    if (job_.mixed)
      out_.notes.push_back("GPUs of different models take part: a rank is compared with ranks on the same model" +
                           std::string(job_.mixed->alone ? "; one alone is compared with its own past" : ""));
    if (job_.gpus_shared)
      out_.notes.push_back(
          "several ranks share a GPU: what the others compute while they wait for one of them would take the GPU's "
          "time later, so only the time they idle counts as its cost");
    size_t by_thread = 0;
    for (const RankFigures& r : job_.ranks) by_thread += r.phases_by_thread;
    if (by_thread > 0)
      out_.notes.push_back(
          "not all phases are marked: the others were found by launching thread (torch launches "
          "the backward pass on a separate thread) and by the names of optimizer kernels");
    uint64_t lost = 0;
    for (const LossResult& l : out_.losses) lost += l.count;
    if (lost > 0) add(std::to_string(lost) + " records were lost (see losses): the figures of those ranks are too low");
    if (const std::string damage = reader_.damageSummary(); !damage.empty())
      add(damage + ": their contents are not counted");
    if (out_.ranks == 1) add("only one rank: whether it waited for others is unknown");
  }

  const Reader& reader_;
  const AnalyzeOptions& options_;
  model::CommRules rules_;
  std::unique_ptr<trace::NameNumbers> names_;
  bool summary_ = false;
  int64_t window_ns_ = 0;
  JobData job_;
  std::vector<int32_t> roots_;
  uint64_t off_clock_ = 0;  // collectives left out because they contradict the clocks
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
