// What each module of the model costs, from the ranges that the Python hooks record on a few steps: kernels belong to
// the modules in which they were launched.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "analysis/rows/each_row.hpp"
#include "analysis/verdict/job_data.hpp"
#include "analysis/verdict/module_siblings.hpp"
#include "model/hook_names.hpp"
#include "trace/rows.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr size_t kMostListed = 1000;

/// "blocks.*.attn" of "blocks.7.attn".
std::string patternOf(std::string_view name) {
  std::string pattern;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    pattern += digits ? "*" : std::string(part);
    if (end < name.size()) pattern += '.';
    at = end + 1;
  }
  return pattern;
}

/// Which ranges are modules: by name.
class ModuleNames {
 public:
  struct Named {
    uint32_t module = kNoName;  // in modules()
    bool backward = false;
  };
  explicit ModuleNames(const NameNumbers& names) {
    for (uint32_t n = 0; n < names.size(); ++n) {
      std::string_view text = names.text(n);
      const bool backward = text.starts_with(model::kModuleBackward);
      if (!backward && !text.starts_with(model::kModule)) continue;
      text.remove_prefix(backward ? model::kModuleBackward.size() : model::kModule.size());
      if (by_name_.empty()) by_name_.resize(names.size());
      auto [it, fresh] = known_.try_emplace(text, static_cast<uint32_t>(modules_.size()));
      by_name_[n] = {it->second, backward};
      if (!fresh) continue;
      const size_t bracket = text.ends_with(')') ? text.rfind(" (") : text.npos;
      ModuleResult m;
      m.name = text.substr(0, bracket);
      if (bracket != text.npos) m.kind = text.substr(bracket + 2, text.size() - bracket - 3);
      m.pattern = patternOf(m.name);
      modules_.push_back(std::move(m));
    }
  }
  bool empty() const { return modules_.empty(); }
  /// nullptr: none has this title.
  ModuleResult* titled(std::string_view title) {
    auto it = known_.find(title);
    return it == known_.end() ? nullptr : &modules_[it->second];
  }
  Named of(int64_t name) const { return name == kNull ? Named() : by_name_[static_cast<uint32_t>(name)]; }
  std::vector<ModuleResult>& modules() { return modules_; }

 private:
  std::map<std::string_view, uint32_t> known_;  // by title: name and class
  std::vector<Named> by_name_;
  std::vector<ModuleResult> modules_;
};

struct Range {
  int64_t ts, end, tid, step;
  uint32_t module;
  bool backward;
};

/// One module in one step of one rank, ns.
struct Sum {
  int64_t forward = 0, backward = 0, host = 0, launch = 0;
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

 private:
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
    const ModuleNames::Named named = modules.of(row.name);
    int64_t end;
    if (named.module == kNoName || row.ts == kNull || row.dur == kNull || row.step == kNull || row.dur < 0 ||
        __builtin_add_overflow(row.ts, row.dur, &end))
      continue;
    out[processOf(row.rank, row.pid)].push_back({row.ts, end, row.tid, row.step, named.module, named.backward});
  }
  return rows.status();
}

/// How many operations modules take; of ranks and steps that differ the largest.
Status readFlops(const Reader& reader, const NameNumbers& names, ModuleNames& modules) {
  return eachRow<CounterRow>(reader, names, {counters::name, counters::value}, [&](const CounterRow& row, auto&&) {
    if (row.name == kNull || row.value == kNull) return;
    const std::string_view name = names.text(static_cast<uint32_t>(row.name));
    if (!name.starts_with(model::kModuleFlops)) return;
    if (ModuleResult* m = modules.titled(name.substr(model::kModuleFlops.size())))
      m->flops = std::fmax(m->flops, std::bit_cast<double>(row.value));
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
  if (modules.empty()) return {};
  std::map<int64_t, std::vector<Range>> ranges;
  TS_TRY(readRanges(reader, names, modules, ranges));
  TS_TRY(readFlops(reader, names, modules));
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
      if (it == ranges.end()) return;
      const RankModules modules_of(std::move(it->second));
      Sums own = rows.calls.empty() ? modules_of.byHost() : modules_of.byDevice(rows, Launches(rows), comm);
      std::lock_guard lock(mutex);
      host &= rows.calls.empty();
      sums[rows.process] = std::move(own);
    }));
  }
  // Of each rank the step in the middle: the lower one of two, so that what came between once does not count.
  std::vector<ModuleResult>& all = modules.modules();
  std::vector<ModuleTimes> times(all.size());
  std::vector<std::vector<Sum>> typical(all.size());
  for (const auto& [process, by_module] : sums)
    for (const auto& [module, by_step] : by_module) {
      std::vector<Sum> steps;
      for (const auto& [step, sum] : by_step) steps.push_back(sum);
      const auto middle = steps.begin() + static_cast<long>((steps.size() - 1) / 2);
      std::nth_element(steps.begin(), middle, steps.end(),
                       [](const Sum& a, const Sum& b) { return a.forward + a.backward < b.forward + b.backward; });
      typical[module].push_back(*middle);
      times[module][job.rankOf(process)] = static_cast<double>(middle->forward + middle->backward);
    }
  for (size_t m = 0; m < all.size(); ++m) {
    if (typical[m].empty()) continue;
    const auto middle = typical[m].begin() + static_cast<long>((typical[m].size() - 1) / 2);
    std::nth_element(typical[m].begin(), middle, typical[m].end(),
                     [](const Sum& a, const Sum& b) { return a.forward + a.backward < b.forward + b.backward; });
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
