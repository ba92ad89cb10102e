// What each module of the model costs, from the ranges that the Python hooks record on a few steps: kernels belong to
// the modules in which they were launched; those that a CUDA graph replays to the modules they were captured in.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/graph_modules.hpp"
#include "analysis/verdict/job_data.hpp"
#include "analysis/verdict/module_siblings.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr size_t kMostListed = 1000;

struct Range {
  int64_t ts, end, tid, step;
  uint32_t module;
  bool backward;
};

/// One module in one step of one rank, ns.
struct Sum {
  int64_t forward = 0, backward = 0, host = 0, launch = 0;
  int64_t replayed = 0;  // the part of forward and backward that graphs replayed
  int64_t total() const { return forward + backward; }
};

/// By module, by step.
using Sums = std::map<uint32_t, std::map<int64_t, Sum>>;

/// One rank: its ranges, and what was launched in them.
class RankModules {
 public:
  explicit RankModules(std::vector<Range> ranges) : ranges_(std::move(ranges)) {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return std::tie(a.tid, a.ts, b.end) < std::tie(b.tid, b.ts, a.end);
    });
  }

  /// Where nothing runs on a device, the host's time is what a module costs.
  Sums byHost() const {
    Sums sums;
    for (const Range& r : ranges_) {
      Sum& sum = sums[r.module][r.step];
      (r.backward ? sum.backward : sum.forward) += r.end - r.ts;
      sum.host += r.end - r.ts;
    }
    return sums;
  }

  Sums byDevice(const RankRows& rows, const Launches& launches, const std::vector<uint8_t>& comm) const {
    std::vector<int64_t> device(rows.calls.size());  // ns that each call launched
    for (const DeviceEvent& e : rows.device) {
      const bool work = e.type == EventType::kernel || e.type == EventType::memcpy || e.type == EventType::memset;
      if (!work || e.correlation == kNull || (e.name != kNoName && comm[e.name])) continue;
      if (const HostCall* call = launches.find(e.correlation))
        device[static_cast<size_t>(call - rows.calls.data())] += e.end - e.ts;
    }
    std::map<int64_t, std::vector<size_t>> calls;  // by thread, by time
    for (size_t c = 0; c < rows.calls.size(); ++c)
      if (rows.calls[c].thread >= 0) calls[rows.threads[static_cast<size_t>(rows.calls[c].thread)]].push_back(c);
    Sums sums;
    for (const Range& r : ranges_) sums[r.module][r.step].host += r.end - r.ts;
    for (size_t from = 0, to; from < ranges_.size(); from = to) {
      for (to = from; to < ranges_.size() && ranges_[to].tid == ranges_[from].tid; ++to) continue;
      launched(rows, calls[ranges_[from].tid], device, from, to, sums);
    }
    return sums;
  }

  /// What graphs replayed. Modules that run around the launch of a graph have it already. The step is that of the
  /// launch; where nothing is launched in a step, the n-th launch of each graph is one.
  void addReplays(const RankRows& rows, const Launches& launches, const Replays& replays, Sums& sums) const {
    const auto stepOf = [&](int64_t correlation, const Replay& replay) {
      const HostCall* call = launches.find(correlation);
      return replays.steps.empty() ? kNull : call ? replays.stepAt(call->ts) : replay.step;
    };
    const bool in_steps = std::any_of(replays.launches.begin(), replays.launches.end(),
                                      [&](const auto& r) { return stepOf(r.first, r.second) != kNull; });
    for (const auto& [correlation, replay] : replays.launches) {
      const int64_t step = in_steps ? stepOf(correlation, replay) : -1 - replay.turn;
      if (step == kNull) continue;
      const std::set<uint32_t> around = modulesAround(rows, launches.find(correlation));
      for (const auto& [part, ns] : replay.parts) {
        if (around.contains(part.module)) continue;
        Sum& sum = sums[part.module][step];
        (part.backward ? sum.backward : sum.forward) += ns;
        sum.replayed += ns;
      }
    }
  }

 private:
  std::set<uint32_t> modulesAround(const RankRows& rows, const HostCall* call) const {
    std::set<uint32_t> around;
    if (!call || call->thread < 0) return around;
    for (const Range& r : ranges_)
      if (r.tid == rows.threads[static_cast<size_t>(call->thread)] && r.ts <= call->ts && call->ts < r.end)
        around.insert(r.module);
    return around;
  }

  /// Of one thread: its ranges [from, to).
  void launched(const RankRows& rows, const std::vector<size_t>& calls, const std::vector<int64_t>& device, size_t from,
                size_t to, Sums& sums) const {
    std::vector<const Range*> open;
    for (size_t c : calls) {
      const HostCall& call = rows.calls[c];
      for (; from < to && ranges_[from].ts <= call.ts; ++from) open.push_back(&ranges_[from]);
      std::erase_if(open, [&](const Range* r) { return r->end <= call.ts; });
      // A module that is called inside of itself, or computed again in its backward pass, counts once.
      for (size_t i = 0; i < open.size(); ++i) {
        const Range& r = *open[i];
        Sum& sum = sums[r.module][r.step];
        if (std::any_of(open.begin(), open.begin() + static_cast<long>(i),
                        [&](const Range* outer) { return outer->module == r.module; }))
          continue;
        (r.backward ? sum.backward : sum.forward) += device[c];
        sum.launch += call.end - call.ts;
      }
    }
  }

  std::vector<Range> ranges_;  // by thread and time, the outer one first
};

Status readRanges(const Reader& reader, const NameNumbers& names, const ModuleNames& modules,
                  std::map<int64_t, std::vector<Range>>& out) {
  Selection selection;
  selection.types = 1ull << static_cast<int>(EventType::annotation);
  RowCursor<EventRow> rows(
      reader, {events::ts, events::dur, events::name, events::step, events::rank, events::pid, events::tid},
      std::move(selection), &names);
  while (rows.next()) {
    const EventRow& row = rows.row();
    const ModuleInPass named = modules.of(row.name);
    int64_t end;
    if (named.module == kNoName || row.ts == kNull || row.dur == kNull || row.step == kNull || row.dur < 0 ||
        __builtin_add_overflow(row.ts, row.dur, &end))
      continue;
    out[processOf(row.rank, row.pid)].push_back({row.ts, end, row.tid, row.step, named.module, named.backward});
  }
  return rows.status();
}

/// The steps in which all of a module was recorded. What is launched is on sampled steps only, what is replayed on all.
std::vector<Sum> wholeSteps(const std::map<int64_t, Sum>& by_step) {
  const auto replayed = [](const Sum& s) { return s.replayed > 0; };
  const auto launched = [](const Sum& s) { return s.total() > s.replayed; };
  bool any = false, both = false;
  for (const auto& [step, sum] : by_step) {
    any |= replayed(sum);
    both |= replayed(sum) && launched(sum);
  }
  std::vector<Sum> steps;
  for (const auto& [step, sum] : by_step)
    if (both ? replayed(sum) && launched(sum) : !any || sum.total() > 0) steps.push_back(sum);
  return steps;
}

/// How many operations modules take, and how much memory; of ranks and steps that differ the most.
Status readCounters(const Reader& reader, const NameNumbers& names, ModuleNames& modules) {
  auto add = [&](std::string_view title, double ModuleResult::*field, double value) {
    if (ModuleResult* m = modules.titled(title)) m->*field = std::fmax(m->*field, value);
  };
  return eachRow<CounterRow>(reader, names, {counters::name, counters::series, counters::value},
                             [&](const CounterRow& row, auto&&) {
                               if (row.name == kNull || row.value == kNull) return;
                               const std::string_view name = names.text(static_cast<uint32_t>(row.name));
                               const auto value = std::bit_cast<double>(row.value);
                               if (name.starts_with(model::kModuleFlops))
                                 add(name.substr(model::kModuleFlops.size()), &ModuleResult::flops, value);
                               if (!name.starts_with(model::kModuleMemory) || row.series == kNull) return;
                               const std::string_view title = name.substr(model::kModuleMemory.size()),
                                                      series = names.text(static_cast<uint32_t>(row.series));
                               if (series == model::kMemoryKept) add(title, &ModuleResult::kept_bytes, value);
                               if (series == model::kMemoryPeak) add(title, &ModuleResult::peak_bytes, value);
                             });
}

/// Takes the time of modules out of that of the module they are in. Returns that of those that are in none.
double shareOut(std::vector<ModuleResult>& modules) {
  static constexpr std::string_view kRoot = "model";  // as the hooks call it
  std::map<std::string_view, ModuleResult*> by_name;
  for (ModuleResult& m : modules) by_name.try_emplace(m.name, &m);
  double whole = 0;
  for (const ModuleResult& m : modules) {
    auto around = by_name.end();
    std::string_view name = m.name;
    for (size_t dot; around == by_name.end() && (dot = name.rfind('.')) != name.npos;)
      around = by_name.find(name = name.substr(0, dot));
    if (around == by_name.end() && m.name != kRoot) around = by_name.find(kRoot);
    if (around == by_name.end())
      whole += m.total_us;
    else
      around->second->own_us = std::max(0.0, around->second->own_us - m.total_us);
  }
  return whole;
}

}  // namespace

Status findModules(const Reader& reader, const NameNumbers& names, const JobData& job, const std::vector<uint8_t>& comm,
                   size_t threads, Analysis& out) {
  ModuleNames modules(names);
  std::map<int64_t, Replays> replays;
  TS_TRY(readReplays(reader, names, comm, modules, replays));
  if (modules.empty()) return {};
  std::map<int64_t, std::vector<Range>> ranges;
  TS_TRY(readRanges(reader, names, modules, ranges));
  TS_TRY(readCounters(reader, names, modules));
  std::map<int64_t, Sums> sums;  // by process
  bool host = true;              // no calls that launched something: the time of the host is all there is
  if (job.host_only) {
    for (auto& [process, own] : ranges) sums[process] = RankModules(std::move(own)).byHost();
  } else {
    std::mutex mutex;  // guards sums and host
    RankRowsOptions options;
    options.threads = threads;
    TS_TRY(eachRank(reader, names, options, [&](RankRows& rows, size_t) {
      auto it = ranges.find(rows.process);
      auto replayed = replays.find(rows.process);
      if (it == ranges.end() && replayed == replays.end()) return;
      const RankModules modules_of(it == ranges.end() ? std::vector<Range>() : std::move(it->second));
      const Launches launches(rows);
      Sums own;
      if (!rows.calls.empty()) own = modules_of.byDevice(rows, launches, comm);
      if (replayed != replays.end())
        modules_of.addReplays(rows, launches, replayed->second, own);
      else if (rows.calls.empty())
        own = modules_of.byHost();
      std::lock_guard lock(mutex);
      host &= rows.calls.empty() && replayed == replays.end();
      sums[rows.process] = std::move(own);
    }));
  }
  // Of each rank the step in the middle: the lower one of two, so that what came between once does not count.
  std::vector<ModuleResult>& all = modules.modules();
  std::vector<ModuleTimes> times(all.size());
  std::vector<std::vector<Sum>> typical(all.size());
  for (const auto& [process, by_module] : sums)
    for (const auto& [module, by_step] : by_module) {
      std::vector<Sum> steps = wholeSteps(by_step);
      const auto middle = steps.begin() + static_cast<long>((steps.size() - 1) / 2);
      std::nth_element(steps.begin(), middle, steps.end(),
                       [](const Sum& a, const Sum& b) { return a.total() < b.total(); });
      typical[module].push_back(*middle);
      times[module][job.rankOf(process)] = static_cast<double>(middle->forward + middle->backward);
    }
  for (size_t m = 0; m < all.size(); ++m) {
    if (typical[m].empty()) continue;
    const auto middle = typical[m].begin() + static_cast<long>((typical[m].size() - 1) / 2);
    std::nth_element(typical[m].begin(), middle, typical[m].end(),
                     [](const Sum& a, const Sum& b) { return a.total() < b.total(); });
    auto us = [](int64_t ns) { return static_cast<double>(ns) / 1000; };
    all[m].forward_us = us(middle->forward);
    all[m].backward_us = us(middle->backward);
    all[m].total_us = us(middle->forward + middle->backward);
    all[m].own_us = all[m].total_us;
    all[m].host_us = us(middle->host);
    if (!host) all[m].launch_us = us(middle->launch);
  }
  const double whole = shareOut(all);
  for (ModuleResult& m : all)
    if (whole > 0) m.share_pct = 100 * m.total_us / whole;
  findSlowSiblings(times, all, host, out.notes);
  std::stable_sort(all.begin(), all.end(),
                   [](const ModuleResult& a, const ModuleResult& b) { return a.total_us > b.total_us; });
  if (all.size() > kMostListed) all.resize(kMostListed);
  out.modules = std::move(all);
  return {};
}

}  // namespace tracesmith::analysis
