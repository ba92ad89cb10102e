#include "analysis/verdict/rank_figures.hpp"

#include <algorithm>
#include <unordered_set>

#include "analysis/verdict/part_exposure.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

enum Bit { kForward, kBackward, kOptimizer, kOther, kComm, kCopy, kData, kBits };
constexpr unsigned kCompute = 1 << kForward | 1 << kBackward | 1 << kOptimizer | 1 << kOther;

class Figures {
 public:
  Figures(const FigureContext& context, const RankRows& rows, const Launches& launches, std::span<Part> parts)
      : c_(context),
        rows_(rows),
        launches_(launches),
        parts_(parts),
        model_(context.models ? context.models->of(rows.process) : 0),
        timeline_(rows.ranges, context.phases),
        sampler_(context.names.size()),
        sums_(context.names.size()) {
    for (const Part& p : parts)
      if (p.correlation != kNull) known_.insert(p.correlation);
  }

  RankFigures run() {
    out_.process = rows_.process;
    findSteps();
    leaveOutEvaluations(c_.names, rows_, out_.steps);
    findPhases();
    if (c_.host_only)
      host();
    else
      devices();
    for (const HostRange& r : rows_.ranges)
      if (StepFigures* f = stepAt(r.ts)) f->pause_ns[static_cast<size_t>(c_.pauses[r.name])] += r.end - r.ts;
    timeline();
    setExposures(rows_, parts_, out_.recognised,
                 {compute_.parts(), late_, own_.parts(), std::move(done_), std::move(begun_)});
    std::sort(used_.begin(), used_.end());
    for (uint32_t name : used_) out_.kernels.emplace_hint(out_.kernels.end(), name, sums_[name]);
    out_.samples = sampler_.take();
    return std::move(out_);
  }

 private:
  void findSteps() {
    const std::vector<RankStep>& known = c_.steps.of(rows_.process);
    const bool by_operations = c_.steps.source == StepSource::operations;
    if (c_.steps.source == StepSource::optimizer) {
      if (auto it = c_.steps.optimizers.find(rows_.process); it != c_.steps.optimizers.end())
        out_.steps = windowsOf(launchOrder().stepsBetween(it->second, rows_.first), rows_);
    } else if (!by_operations && !c_.steps.try_kernels) {
      out_.steps = windowsOf(known, rows_, c_.window_ns);
      return;
    } else {
      const LaunchOrder& order = launchOrder();
      std::vector<RankStep> by_optimizer;
      if (c_.steps.try_kernels) by_optimizer = order.optimizerSteps();
      // Optimizers tell more than operations: those may repeat themselves several times in a step.
      const bool agree = by_optimizer.empty() ||
                         (2 * known.size() < 3 * by_optimizer.size() && 2 * by_optimizer.size() < 3 * known.size());
      const auto moved = by_operations && agree ? order.atOptimizer(known) : std::nullopt;
      if (!moved && c_.steps.try_kernels) {
        if (by_optimizer.empty() && !by_operations) by_optimizer = order.repeatedSteps();
        out_.by_kernels = !by_optimizer.empty();
        if (out_.by_kernels) out_.steps = windowsOf(by_optimizer, rows_);
      }
      if (!out_.by_kernels) out_.steps = windowsOf(moved ? *moved : known, rows_);
    }
    std::erase_if(out_.steps, [](const StepFigures& f) { return f.end <= f.ts; });  // cut
    found_ = c_.steps.source == StepSource::optimizer || by_operations || out_.by_kernels;
    if (found_)
      for (Part& p : parts_)
        if (const StepFigures* f = stepAt(p.ts); f && p.step < 0) p.step = static_cast<int32_t>(f->step);
  }

  const LaunchOrder& launchOrder() {
    if (!order_) order_.emplace(rows_, launches_, c_.optimizer);
    return *order_;
  }

  /// Marks win; what they leave out is told by the thread that launched it.
  void findPhases() {
    const bool marked = timeline_.has(Phase::forward) && timeline_.has(Phase::backward);
    if (!marked && rows_.threads.size() > 1) by_thread_ = launchOrder().phases(rows_.calls.size(), timeline_);
    order_.reset();
    out_.phases_by_thread = !by_thread_.empty();
    out_.phases_known = !timeline_.empty() || out_.phases_by_thread;
  }

  Phase phaseOf(const HostCall* launch) const {
    if (!launch) return Phase::none;
    const Phase marked = timeline_.empty() ? Phase::none : timeline_.at(launch->ts);
    if (marked != Phase::none || by_thread_.empty()) return marked;
    return by_thread_[static_cast<size_t>(launch - rows_.calls.data())];
  }

  StepFigures* stepAt(int64_t ts) {
    auto& steps = out_.steps;
    while (at_ + 1 < steps.size() && steps[at_ + 1].ts <= ts) ++at_;
    while (at_ > 0 && steps[at_].ts > ts) --at_;
    return at_ < steps.size() && ts >= steps[at_].ts && ts < steps[at_].end ? &steps[at_] : nullptr;
  }

  void devices() {
    int64_t busy_until = INT64_MIN;
    if (!parts_.empty()) {
      done_.assign(rows_.calls.size(), INT64_MIN);
      begun_.assign(rows_.calls.size(), INT64_MAX);
    }
    for (const DeviceEvent& e : rows_.device) {
      if (e.type != EventType::kernel && e.type != EventType::memcpy && e.type != EventType::memset) continue;
      const HostCall* launch = e.correlation == kNull ? nullptr : launches_.find(e.correlation);
      if (busy_until != INT64_MIN && e.ts > busy_until && launch && launch->ts > busy_until) late(busy_until, e.ts);
      StepFigures* const f = stepAt(e.ts);
      if (f && busy_until != INT64_MIN && e.ts > busy_until && busy_until >= out_.steps.front().ts &&
          missing(busy_until, e.ts) == 0)
        gap(*f, e.ts - busy_until);
      busy_until = std::max(busy_until, e.end);
      if (f && e.type == EventType::kernel && e.name != trace::kNoName) count(*f, e);
      auto computed = [&] {
        if (!launch || done_.empty()) return;
        const auto call = static_cast<size_t>(launch - rows_.calls.data());
        done_[call] = std::max(done_[call], e.end);
        if (e.type == EventType::kernel) begun_[call] = std::min(begun_[call], e.ts);
      };
      if (e.type != EventType::kernel) {
        computed();
        if (f && e.name != trace::kNoName && c_.to_host[e.name]) f->to_host_ns += e.end - e.ts;
        unions_[kCopy].add(e.ts, e.end);
        continue;
      }
      const model::CommRule* rule = e.name == trace::kNoName ? nullptr : c_.rules[e.name];
      const bool in_table =
          e.correlation != kNull && !known_.empty() && (rule || needsTable(e)) && known_.contains(e.correlation);
      const bool synchronises = e.name != trace::kNoName && !c_.synchronising.empty() && c_.synchronising[e.name];
      if (f && !in_table && e.name != trace::kNoName && !synchronises && unclear(e.name, rule))
        sampler_.add(e.name, rows_.streams[static_cast<size_t>(e.stream)], stepOf(*f), e.ts, e.end);
      if (rule || in_table || synchronises) {
        unions_[kComm].add(e.ts, e.end);
        if (!in_table) recognise(e, rule ? model::opKind(rule->op) : OpKind::other);
        continue;
      }
      computed();
      const Phase phase = phaseOf(launch);
      unions_[phase < Phase::data ? static_cast<int>(phase) : static_cast<int>(kOther)].add(e.ts, e.end);
      if (f)
        if (const KernelReference::Mean* usual = c_.reference.of(e.name, e.shape, model_)) {
          if (usual->several || c_.reference.alone(model_)) {
            f->actual_ns += static_cast<double>(e.end - e.ts);
            f->expected_ns += usual->mean;
          } else {
            f->own_ns += static_cast<double>(e.end - e.ts);
            if (!parts_.empty()) own_.add(e.ts, e.end);
          }
        }
    }
    unions_[kData] = timeline_.of(Phase::data);
  }

  void host() {
    for (const HostRange& r : rows_.work) {
      const Phase phase = timeline_.empty() ? Phase::none : timeline_.at(r.ts);
      if (c_.host_calls[r.name] || phase == Phase::data) continue;
      unions_[phase < Phase::data ? static_cast<int>(phase) : static_cast<int>(kOther)].add(r.ts, r.end);
    }
    if (rows_.work.empty())  // only ranges are known
      for (int phase : {kForward, kBackward, kOptimizer}) unions_[phase] = timeline_.of(static_cast<Phase>(phase));
    for (const Part& p : parts_) unions_[kComm].add(p.ts, p.end);
    unions_[kData] = timeline_.of(Phase::data);
  }

  /// nullptr: the step was marked, or is not one of the first.
  KernelSums* early(const StepFigures& f) {
    const auto step = static_cast<size_t>(&f - out_.steps.data());
    return found_ && step < kMostWarmUp ? &out_.early[step] : nullptr;
  }

  void count(const StepFigures& f, const DeviceEvent& e) {
    KernelSums* const early_sums = early(f);
    KernelSum& sum = early_sums ? (*early_sums)[e.name] : sums_[e.name];
    if (sum.count++ == 0 && !early_sums) used_.push_back(e.name);
    sum.ns += e.end - e.ts;
  }

  int64_t missing(int64_t from, int64_t to) const {
    if (c_.device_lost) return to - from;
    return c_.coverage ? c_.coverage->missing(rows_.process, from, to) : 0;
  }

  static void gap(StepFigures& f, int64_t ns) {
    Gaps& g = f.gaps;
    ++(ns <= Gaps::kShort ? g.short_count : g.long_count);
    (ns <= Gaps::kShort ? g.short_ns : g.long_ns) += ns;
  }

  /// The device had nothing to do, and nothing was launched yet.
  void late(int64_t from, int64_t to) {
    if (missing(from, to) > 0) return;
    if (!parts_.empty()) late_.push_back({from, to});
    if (out_.steps.empty()) return;
    stepAt(from);
    for (size_t s = at_; s < out_.steps.size() && out_.steps[s].ts < to; ++s)
      out_.steps[s].host_late_ns +=
          std::max<int64_t>(0, std::min(to, out_.steps[s].end) - std::max(from, out_.steps[s].ts));
  }

  /// Collectives whose kernels no rule knows by name: only then is every kernel looked up.
  bool needsTable(const DeviceEvent&) {
    if (table_needed_ < 0) {
      table_needed_ = 0;
      for (const Part& p : parts_)
        if (p.kernel == trace::kNoName || !c_.rules[p.kernel]) table_needed_ = 1;
    }
    return table_needed_ == 1;
  }

  /// Not known to communicate, or not who waits in it.
  bool unclear(uint32_t name, const model::CommRule* rule) const {
    return !rule ? !c_.excluded[name] : waitingIn(model::opKind(rule->op)) == model::Waiting::unknown;
  }

  /// The same number on all ranks: steps that were found are counted back from the last.
  int64_t stepOf(const StepFigures& f) const {
    return found_ ? &f - out_.steps.data() - static_cast<int64_t>(out_.steps.size()) : f.step == kNull ? -1 : f.step;
  }

  void recognise(const DeviceEvent& e, OpKind op) {
    Part p;
    p.ts = e.ts;
    p.end = e.end;
    p.process = static_cast<int32_t>(rows_.process);
    p.kernel = e.name;
    p.correlation = e.correlation;
    const int64_t stream = rows_.streams[static_cast<size_t>(e.stream)];
    p.stream = stream <= INT32_MAX ? static_cast<int32_t>(stream) : -1;
    p.op = op;
    if (StepFigures* f = stepAt(e.ts); f && f->step != kNull) p.step = static_cast<int32_t>(f->step);
    out_.recognised.push_back(p);
  }

  void timeline() {
    std::vector<const std::vector<Interval>*> parts;
    for (const Union& u : unions_) parts.push_back(&u.parts());
    size_t step = 0;
    auto& steps = out_.steps;
    auto book = [&](unsigned mask, int64_t from, int64_t to) {
      if (mask & kCompute) compute_.add(from, to);
      while (step < steps.size() && steps[step].end <= from) ++step;
      for (size_t s = step; s < steps.size() && steps[s].ts < to; ++s) {
        const int64_t ns = std::min(to, steps[s].end) - std::max(from, steps[s].ts);
        if (ns > 0) add(steps[s], mask, ns);
      }
    };
    sweep(parts, book);
    for (StepFigures& f : steps) {
      f.idle_ns = f.end - f.ts - f.other_ns - f.data_ns - f.exposed_comm_ns;
      for (int64_t ns : f.phase_ns) f.idle_ns -= ns;
      f.missing_ns = unrecorded(f) ? f.end - f.ts : missing(f.ts, f.end);
      f.idle_ns = std::max<int64_t>(0, f.idle_ns - f.missing_ns);
      if (!c_.host_only) continue;
      f.host_late_ns = f.idle_ns + f.data_ns;
      f.own_ns = static_cast<double>(f.computeNs());
    }
  }

  /// What a host does is known by its phases alone, and this step has none: hooks record them only as far as their
  /// budget goes.
  bool unrecorded(const StepFigures& f) const {
    return c_.host_only && rows_.work.empty() && out_.phases_known && f.computeNs() == 0 && f.data_ns == 0;
  }

  static void add(StepFigures& f, unsigned mask, int64_t ns) {
    const bool comm = mask >> kComm & 1;
    if (mask & kCompute) {
      if (mask >> kOptimizer & 1)
        f.phase_ns[kOptimizer] += ns;
      else if (mask >> kBackward & 1)
        f.phase_ns[kBackward] += ns;
      else if (mask >> kForward & 1)
        f.phase_ns[kForward] += ns;
      else
        f.other_ns += ns;
      if (comm) f.hidden_comm_ns += ns;
    } else if (comm) {
      f.exposed_comm_ns += ns;
    } else {
      f.data_ns += ns;  // a copy, or nothing while the host waits for data
      if (mask >> kCopy & 1) f.copy_ns += ns;
    }
  }

  const FigureContext& c_;
  const RankRows& rows_;
  const Launches& launches_;
  std::span<Part> parts_;
  uint32_t model_;  // of its GPU
  PhaseTimeline timeline_;
  std::optional<LaunchOrder> order_;
  std::vector<Phase> by_thread_;  // by call; empty: threads do not tell
  std::unordered_set<int64_t> known_;
  int table_needed_ = -1;
  std::vector<Interval> late_;  // the device idle, and nothing launched yet
  Union own_;                   // computation that no other rank does
  std::vector<int64_t> done_;   // by call: when the computation or copy that it launched was done
  std::vector<int64_t> begun_;  // by call: when the computation that it launched began
  Union unions_[kBits];
  Union compute_;  // of the phases and other computation
  KernelSampler sampler_;
  std::vector<KernelSum> sums_;  // by name
  std::vector<uint32_t> used_;   // names that have one
  bool found_ = false;           // steps were not marked, and found
  size_t at_ = 0;
  RankFigures out_;
};

}  // namespace

RankFigures rankFigures(const FigureContext& context, const RankRows& rows, const Launches& launches,
                        std::span<Part> parts) {
  return Figures(context, rows, launches, parts).run();
}

}  // namespace tracesmith::analysis
