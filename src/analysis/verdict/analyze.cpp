#include <algorithm>
#include <bit>
#include <cmath>
#include <future>
#include <mutex>
#include <set>

#include "analysis/clocks/clock_refine.hpp"
#include "analysis/collectives/comm_edges.hpp"
#include "analysis/hta/hta.hpp"
#include "analysis/rows/each_row.hpp"
#include "analysis/rows/trends.hpp"
#include "analysis/verdict/replay.hpp"
#include "analysis/verdict/unfinished.hpp"
#include "base/statistics.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

class Analyzer {
 public:
  Analyzer(const Reader& reader, const AnalyzeOptions& options) : reader_(reader), options_(options) {}

  Result<Analysis> run() {
    CommRules rules;
    if (!options_.comm_rules.empty()) TS_TRY(rules.addFile(options_.comm_rules));
    Result<Names> names = Names::load(reader_);
    if (!names) return names.status();
    names_ = &*names;
    Result<TraceSteps> steps = TraceSteps::load(reader_, *names);
    if (!steps) return steps.status();
    std::future<KernelReference> reference =
        std::async(threadsOf(options_.threads) > 1 ? std::launch::async : std::launch::deferred,
                   [&] { return KernelReference::sample(reader_, *names); });
    Result<PartTable> table = loadParts(reader_, *names);
    if (!table) return table.status();
    job_.table = std::move(*table);
    if (steps->by_process.empty()) cutByCollectives(*steps);
    windows_ = steps->windows;
    Result<sync::Clocks> clocks = sync::readClocks(reader_);
    if (!clocks) return clocks.status();
    job_.clocks = std::move(*clocks);
    Result<Telemetry> telemetry = Telemetry::load(reader_, *names);
    if (!telemetry) return telemetry.status();
    job_.telemetry = std::move(*telemetry);
    TS_TRY(sideTables());
    TS_TRY(eachEvent(*steps, reference.get(), rules));
    TS_TRY(match(reader_, *names, job_.table));
    clocksAndTimes();
    stepsAndBreakdown();
    TS_TRY(blame());
    collectives();
    matrix();
    say();
    out_.verdict = makeVerdict(job_, out_);
    if (const auto unfinished = findUnfinished(reader_, *names, job_, out_.world_size))
      sayHang(*unfinished, job_, out_.verdict);
    if (options_.excerpt) {
      Result<std::optional<Excerpt>> excerpt = worstCollective(reader_, rules, job_, roots_, out_.verdict.rank);
      if (!excerpt) return excerpt.status();
      out_.excerpt = std::move(*excerpt);
    }
    return std::move(out_);
  }

 private:
  /// Without steps, stretches between the same collectives on every rank are what can be compared.
  void cutByCollectives(TraceSteps& steps) const {
    constexpr size_t kLeast = 12, kMost = 20;
    std::map<uint32_t, std::map<int32_t, std::vector<const Part*>>> by_comm;
    for (const Part& p : job_.table.parts)
      if (synchronises(p.op) && p.comm != kNoName) by_comm[p.comm][p.process].push_back(&p);
    const std::map<int32_t, std::vector<const Part*>>* largest = nullptr;
    for (const auto& [comm, processes] : by_comm)
      if (!largest || processes.size() > largest->size()) largest = &processes;
    if (!largest || largest->size() < 2) return;
    size_t count = SIZE_MAX;
    for (const auto& [process, parts] : *largest) count = std::min(count, parts.size());
    if (count < kLeast) return;
    const size_t windows = std::min(kMost, count / 2);
    for (const auto& [process, parts] : *largest)
      for (size_t w = 0; w < windows; ++w)
        steps.by_process[process].push_back({parts[w * (count - 1) / windows]->ts,
                                             parts[(w + 1) * (count - 1) / windows]->ts, static_cast<int64_t>(w)});
    steps.windows = true;
  }

  Status sideTables() {
    auto text = [&](int64_t slot) {
      return slot == kNull ? std::string() : std::string(names_->text(static_cast<uint32_t>(slot)));
    };
    TS_TRY(
        eachRow<LossRow>(reader_, *names_, {losses::rank, losses::pid, losses::cause, losses::count, losses::detail},
                         [&](const LossRow& row, auto&& get) {
                           const uint64_t count = row.count == kNull ? 0 : static_cast<uint64_t>(row.count);
                           out_.losses.push_back({text(row.cause), std::string(get(losses::detail)), row.rank, count});
                           if (row.rank != kNull) job_.lost[row.rank] += count;
                         }));
    TS_TRY(eachRow<ProcessRow>(reader_, *names_,
                               {processes::rank, processes::pid, processes::world_size, processes::local_rank},
                               [&](const ProcessRow& row, auto&&) {
                                 if (row.world_size != kNull)
                                   out_.world_size = std::max(out_.world_size, static_cast<int>(row.world_size));
                                 if (row.rank != kNull && row.local_rank != kNull)
                                   job_.device_of[row.rank] = row.local_rank;
                               }));
    for (const auto& [rank, device] : job_.table.device_of) job_.device_of[rank] = device;
    return {};
  }

  /// The one pass over all events, rank by rank.
  Status eachEvent(const TraceSteps& steps, const KernelReference& reference, const CommRules& rules) {
    const FigureContext context(*names_, steps, reference, rules);
    HtaAnalysis hta(*names_, steps);
    RankRowsOptions options;
    options.threads = options_.threads;
    options.wanted_ranges = &context.wanted;
    options.progress = options_.progress;
    std::mutex mutex;
    std::vector<Part> recognised;
    auto visit = [&](RankRows& rows, size_t) {
      const Launches launches(rows);
      if (options_.hta) hta.add(rows, launches);
      std::span<Part> parts;
      if (auto it = job_.table.of_process.find(rows.process); it != job_.table.of_process.end())
        parts = std::span(job_.table.parts).subspan(it->second.first, it->second.second - it->second.first);
      RankFigures figures = rankFigures(context, rows, launches, parts);
      std::lock_guard lock(mutex);
      recognised.insert(recognised.end(), figures.recognised.begin(), figures.recognised.end());
      figures.recognised = {};
      if (!rows.device.empty() || !parts.empty()) job_.ranks.push_back(std::move(figures));
    };
    TS_TRY(eachRank(reader_, *names_, options, visit));
    std::sort(job_.ranks.begin(), job_.ranks.end(),
              [](const RankFigures& a, const RankFigures& b) { return a.process < b.process; });
    addParts(job_.table, std::move(recognised));
    out_.hta = hta.finish();
    out_.events = reader_.rows(tableOf<EventRow>());
    out_.ranks = static_cast<int>(job_.ranks.size());
    return {};
  }

  void clocksAndTimes() {
    std::vector<std::string> missing;
    for (const std::string& d : job_.table.domains)
      if (!job_.clocks.contains(d)) missing.push_back(d);
    const std::vector<std::string> lost = estimateClocks(job_.table, job_.clocks);
    job_.clocks_known = lost.empty();
    if (job_.table.domains.size() > 1 && !missing.empty())
      out_.unknowns.push_back("the clocks of " + std::to_string(missing.size()) + " of " +
                              std::to_string(job_.table.domains.size()) + " nodes or ranks are not in the trace: " +
                              (lost.empty() ? "they were found from collectives that end together"
                                            : "for " + std::to_string(lost.size()) +
                                                  " of them there is no collective to tell, so nobody "
                                                  "can say who was late there"));
    const Contradictions found = contradictions(job_.table, job_.clocks);
    if (found.wrong * 20 > found.checked) {
      // What the trace says about its clocks cannot be: ranks would leave collectives before the last came.
      job_.clocks.clear();
      job_.clocks_known = estimateClocks(job_.table, job_.clocks).empty();
      out_.unknowns.push_back("the clocks in the trace contradict the collectives (" + std::to_string(found.wrong) +
                              " of " + std::to_string(found.checked) +
                              " looked at): they were found from collectives that end together");
    }
    const Refinement refined = refineClocks(job_.table, job_.clocks);
    for (const std::string& fault : refined.faults) out_.unknowns.push_back("clock fault: " + fault);
    settle(job_.table, job_.clocks);
    for (const std::string& d : job_.table.domains) {
      if (const sync::ClockTable& clock = clockOf(job_.clocks, d); !clock.empty()) {
        const sync::ClockModel& m = clock.models().back();
        out_.clocks.push_back({d, m.offset_ns, m.valid() ? m.bound_ns : kNull, m.drift_ppm, m.method});
      } else {
        out_.clocks.push_back({d, 0, kNull, 0, job_.table.domains.size() == 1 ? "reference" : "unknown"});
      }
    }
    std::set<std::string> nodes;
    for (const auto& [process, node] : job_.table.node_of) nodes.insert(node);
    out_.nodes = static_cast<int>(nodes.size());
  }

  void stepsAndBreakdown() {
    std::set<int64_t> numbers;
    for (const RankFigures& r : job_.ranks)
      for (const StepFigures& f : r.steps) numbers.insert(f.step);
    job_.steps.assign(numbers.begin(), numbers.end());
    std::vector<StepResult> steps(job_.steps.size());
    std::vector<std::vector<double>> durations(steps.size());
    job_.start = INT64_MAX;
    job_.end = INT64_MIN;
    for (const RankFigures& r : job_.ranks) {
      const sync::ClockTable& clock = clockOf(job_.clocks, job_.table.domain(r.process));
      for (const StepFigures& f : r.steps) {
        const auto column =
            static_cast<size_t>(std::lower_bound(job_.steps.begin(), job_.steps.end(), f.step) - job_.steps.begin());
        StepResult& s = steps[column];
        const int64_t start = clock.toReference(f.ts), end = clock.toReference(f.end);
        job_.start = std::min(job_.start, start);
        job_.end = std::max(job_.end, end);
        s.step = f.step;
        s.start_ns = s.ranks == 0 ? start : std::min(s.start_ns, start);
        ++s.ranks;
        durations[column].push_back(us(f.end - f.ts));
        if (us(f.end - f.ts) > s.slowest_us) {
          s.slowest_us = us(f.end - f.ts);
          s.slowest_rank = job_.rankOf(r.process);
        }
        out_.breakdown.push_back(breakdownOf(r, f));
      }
    }
    std::vector<double> all;
    for (size_t i = 0; i < steps.size(); ++i) all.push_back(steps[i].duration_us = median(durations[i]));
    if (job_.start > job_.end) job_.start = job_.end = 0;
    out_.duration_us = us(job_.end - job_.start);
    if (!job_.steps.empty() && job_.steps.back() != kNull && !windows_) {
      job_.step_ns = 1000 * median(all);
      out_.steps = std::move(steps);
    }
  }

  Breakdown breakdownOf(const RankFigures& r, const StepFigures& f) const {
    Breakdown b;
    b.rank = job_.rankOf(r.process);
    b.step = f.step;
    if (r.phases_known) {
      b.forward_us = us(f.phase_ns[0]);
      b.backward_us = us(f.phase_ns[1]);
      b.optimizer_us = us(f.phase_ns[2]);
    }
    b.compute_us = us(f.phase_ns[0] + f.phase_ns[1] + f.phase_ns[2] + f.other_ns);
    b.other_us = us(f.other_ns);
    b.data_us = us(f.data_ns);
    b.exposed_comm_us = us(f.exposed_comm_ns);
    b.hidden_comm_us = us(f.hidden_comm_ns);
    b.idle_us = us(f.idle_ns);
    if (f.expected_ns > 0) b.kernel_ratio = f.actual_ns / f.expected_ns;
    return b;
  }

  Status blame() {
    roots_ = rootsOf(job_);
    const std::vector<RankEvidence> evidence = rankEvidence(job_);
    out_.blame = blameRanks(job_, evidence, roots_);
    std::vector<LinkEvidence> links = findLinks(job_);
    TS_TRY(addProxyLinks(reader_, *names_, job_, links));
    if (!job_.table.instances.empty()) whatIf(evidence, links);
    for (LinkEvidence& l : links) out_.links.push_back(std::move(l.result));
    return {};
  }

  struct Asked {
    Change change;
    double saved_pct;
    double* hidden_pct;
  };
  /// The others wait for the slowest alone: the next one costs something only when that is well.
  static void hiddenCosts(const Replay& replay, double base, const std::vector<Asked>& asked) {
    if (asked.empty()) return;
    const Asked& most = *std::max_element(asked.begin(), asked.end(),
                                          [](const Asked& a, const Asked& b) { return a.saved_pct < b.saved_pct; });
    const double well = replay.run(most.change);
    for (const Asked& a : asked) {
      if (&a == &most || a.saved_pct >= kLeastCostPct) continue;
      Change both = most.change;
      both.work.insert(a.change.work.begin(), a.change.work.end());
      both.transfer.insert(a.change.transfer.begin(), a.change.transfer.end());
      *a.hidden_pct = 100 * (well - replay.run(both)) / base;
    }
  }

  void whatIf(const std::vector<RankEvidence>& evidence, std::vector<LinkEvidence>& links) {
    constexpr size_t kMost = 4;  // of ranks and of links
    const Replay replay(job_);
    CriticalPath path = replay.path();
    const double base = replay.run({});
    if (base <= 0) return;
    path.replay_error_pct = 100 * (base / std::max(1.0, static_cast<double>(job_.end - job_.start)) - 1);
    auto ask = [&](const std::string& what, const Change& change) {
      const double ns = replay.run(change);
      WhatIf w{what, ns / 1000, (base - ns) / 1000, 100 * (base - ns) / base, kUnknown};
      if (job_.step_ns > 0) w.step_us = job_.step_ns / 1000 * ns / base;
      path.what_if.push_back(w);
      return w.saved_pct;
    };
    std::vector<Asked> asked;
    std::vector<Blame*> ranks;
    for (Blame& b : out_.blame)
      if (b.significant) ranks.push_back(&b);
    std::stable_sort(ranks.begin(), ranks.end(), [](Blame* a, Blame* b) { return a->slowdown > b->slowdown; });
    if (ranks.size() > kMost) ranks.resize(kMost);
    for (Blame* b : ranks)
      for (size_t r = 0; r < job_.ranks.size(); ++r) {
        if (job_.rankOf(job_.ranks[r].process) != b->rank) continue;
        const RankEvidence& e = evidence[r];
        const bool pause = info(e.cause).what_if == CauseWhatIf::pause;
        Change change;
        change.work[static_cast<int32_t>(job_.ranks[r].process)] = pause ? 1 - e.excess : 1 / (1 + e.excess);
        b->saved_pct = ask("rank " + std::to_string(b->rank) +
                               (e.cause == Cause::checkpoint ? " did not pause" : " were as fast as the others"),
                           change);
        asked.push_back({change, b->saved_pct, &job_.hidden_ranks[b->rank]});
      }
    size_t slow_links = 0;
    for (LinkEvidence& l : links) {
      if (!l.result.significant || l.comm == UINT32_MAX || ++slow_links > kMost) continue;
      Change usual, twice;
      usual.transfer[l.comm] = 1 / l.result.slowdown;
      twice.transfer[l.comm] = 0.5;
      l.result.saved_pct = ask("communicator " + l.result.group + " were as fast as its peers", usual);
      ask("communicator " + l.result.group + " were twice as fast", twice);
      asked.push_back({usual, l.result.saved_pct, &job_.hidden_links[l.result.group]});
    }
    hiddenCosts(replay, base, asked);
    // Where no link is slow: the one the job waits for most.
    for (uint32_t c = 0; slow_links == 0 && !path.groups.empty() && c < job_.table.comms.size(); ++c) {
      if (job_.table.comms[c].name != path.groups[0].of) continue;
      Change twice;
      twice.transfer[c] = 0.5;
      ask("communicator " + path.groups[0].of + " were twice as fast", twice);
      break;
    }
    Change hidden;
    hidden.all_transfers = 0;
    ask("all communication were hidden", hidden);
    out_.critical_path = std::move(path);
  }

  void collectives() {
    const PartTable& t = job_.table;
    for (size_t i = 0; i < t.instances.size(); ++i) {
      const Instance& in = t.instances[i];
      out_.incomplete += !in.complete;
      out_.inconsistent += !in.consistent;
      if (!options_.collectives) continue;
      CollectiveResult c;
      c.index = in.index;
      c.group = t.comms[in.comm].name;
      c.op = opName(in.op);
      c.bytes = in.bytes;
      c.step = in.step < 0 ? kNull : in.step;
      c.start_ns = in.first_start;
      c.ranks = static_cast<int>(in.count);
      c.group_size = in.group_size;
      if (roots_[i] != kNobody) {
        c.culprit_rank = job_.rankOf(t.parts[static_cast<size_t>(in.last_part)].process);
        c.root_rank = job_.rankOf(roots_[i]);
        c.wait_us_total = us(in.wait_ns);
      } else {
        c.wait_us_total = kUnknown;
      }
      c.skew_start_us = us(in.last_start - in.first_start);
      c.skew_end_us = us(in.last_end - in.first_end);
      c.transfer_us = in.complete && in.consistent ? us(in.transferNs()) : kUnknown;
      if (in.bytes != kNull && in.complete && in.consistent && in.transferNs() > 0)
        if (const double factor = busFactor(in.op, in.group_size); factor > 0) {
          c.algbw_gbps = trafficBytes(in.op, in.group_size, in.bytes) / static_cast<double>(in.transferNs());
          c.busbw_gbps = c.algbw_gbps * factor;
        }
      out_.collectives.push_back(std::move(c));
    }
    out_.unmatched = t.unmatched;
  }

  void matrix() {
    const PartTable& t = job_.table;
    struct Cell {
      double bytes = 0, ns = 0;
      uint64_t count = 0;
    };
    std::map<std::pair<int64_t, int64_t>, Cell> cells;
    for (const Instance& in : t.instances) {
      if (in.bytes == kNull || !in.complete) continue;
      const Communicator& c = t.comms[in.comm];
      const Part& p = t.parts[t.order[in.first]];
      const bool pair = in.op == OpKind::send || in.op == OpKind::recv;
      const std::vector<int32_t> ends = {p.op == OpKind::send ? p.process : p.peer,
                                         p.op == OpKind::send ? p.peer : p.process};
      eachEdge(pair ? OpKind::send : in.op, names_->text(c.algo), pair ? ends : c.members, p.peer,
               static_cast<double>(in.bytes), [&](int64_t from, int64_t to, double bytes) {
                 Cell& cell = cells[{from, to}];
                 cell.bytes += bytes;
                 cell.ns += static_cast<double>(in.transferNs());
                 ++cell.count;
               });
    }
    for (const auto& [key, cell] : cells)
      out_.matrix.push_back({key.first, key.second, static_cast<uint64_t>(cell.bytes), cell.count,
                             cell.ns / 1000 / static_cast<double>(cell.count)});
    out_.pattern = pattern();
  }

  /// Of the communicators, if they all have the same: rings within nodes and over all of them are rings.
  std::string pattern() const {
    const PartTable& t = job_.table;
    std::map<uint32_t, std::vector<std::vector<uint64_t>>> bytes;
    for (const Instance& in : t.instances) {
      const size_t n = t.comms[in.comm].members.size();
      if (in.bytes == kNull || n < 2 || !synchronises(in.op)) continue;
      auto& matrix = bytes[in.comm];
      matrix.resize(n, std::vector<uint64_t>(n, 0));
      std::vector<int32_t> places(n);
      for (size_t i = 0; i < n; ++i) places[i] = static_cast<int32_t>(i);
      if (matrix[0][1] == 0)
        eachEdge(in.op, names_->text(t.comms[in.comm].algo), places, -1, 1000, [&](int64_t from, int64_t to, double) {
          matrix[static_cast<size_t>(from)][static_cast<size_t>(to)] = 1;
        });
    }
    std::set<std::string_view> found;
    for (const auto& [comm, matrix] : bytes) found.insert(patternOf(matrix));
    return found.empty() ? "" : found.size() == 1 ? std::string(*found.begin()) : "custom";
  }

  void say() {
    auto add = [&](std::string s) { out_.unknowns.push_back(std::move(s)); };
    if (out_.world_size > out_.ranks && out_.ranks > 0)
      add(std::to_string(out_.ranks) + " of " + std::to_string(out_.world_size) +
          " ranks are in the trace: a rank that is missing cannot be blamed, and may be the one");
    if (out_.incomplete > 0)
      add(std::to_string(out_.incomplete) + " of " + std::to_string(job_.table.instances.size()) +
          " collectives lack some of their ranks: their transfer time is not known");
    if (out_.inconsistent > 0)
      add(std::to_string(out_.inconsistent) +
          " collectives contradict the clocks (a rank left before the last came) "
          "and were left out");
    if (out_.unmatched > 0)
      add(std::to_string(out_.unmatched) + " parts of collectives have ids that do not fit together and were left out");
    if (job_.table.parts.empty()) add("no collectives were found: nobody can be said to have waited for anybody");
    if (windows_)
      add("no training steps are marked: the trace was cut by its collectives into " +
          std::to_string(job_.steps.size()) + " stretches, which count as steps");
    else if (job_.step_ns == 0)
      add("no training steps are marked: the whole trace counts as one, and nothing can be said about when it began");
    uint64_t lost = 0;
    for (const LossResult& l : out_.losses) lost += l.count;
    if (lost > 0) add(std::to_string(lost) + " records were lost (see losses): figures of those ranks are too low");
    if (const std::string damage = reader_.damageSummary(); !damage.empty())
      add(damage + ": what was in them is not counted");
    if (out_.ranks == 1) add("one rank only: nothing can be said about waiting for others");
  }

  const Reader& reader_;
  const AnalyzeOptions& options_;
  const Names* names_ = nullptr;
  JobData job_;
  std::vector<int32_t> roots_;
  bool windows_ = false;  // steps are only stretches of time
  Analysis out_;
};

}  // namespace

Result<Analysis> analyze(const Reader& reader, const AnalyzeOptions& options) {
  Result<Analysis> result = Analyzer(reader, options).run();
  if (result) result->simulated = trace::isSimulated(reader);
  return result;
}

}  // namespace tracesmith::analysis
