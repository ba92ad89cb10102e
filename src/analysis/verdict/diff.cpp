#include "tracesmith/analysis/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "analysis/rows/rank_rows.hpp"
#include "analysis/verdict/diff_setting.hpp"
#include "analysis/verdict/diff_totals.hpp"
#include "base/text.hpp"
#include "trace/name_numbers.hpp"

namespace tracesmith::analysis {

using namespace trace;

namespace {

constexpr double kLeastChange = 2;  // per cent of a step
constexpr double kSure = 5;         // standard errors
constexpr size_t kNames = 40;

struct Moments {
  double n = 0, sum = 0, squares = 0;
  void add(double v) {
    ++n;
    sum += v;
    squares += v * v;
  }
  double mean() const { return n > 0 ? sum / n : 0; }
  double error2() const { return n > 1 ? std::max(0.0, (squares - sum * sum / n) / (n - 1)) / n : 0; }
};

using PartValues = std::map<std::pair<std::string, int64_t>, Moments>;

/// Values per step of every part: of each rank, and of all (rank kNull).
PartValues valuesOf(const Analysis& a) {
  PartValues out;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const Breakdown& b : a.breakdown) {
    first = std::min(first, b.step);
    last = std::max(last, b.step);
  }
  for (const Breakdown& b : a.breakdown) {
    // The first step warms up, the last may be cut.
    if (last - first >= 4 && (b.step == first || b.step == last)) continue;
    const double step = b.compute_us + b.data_us + b.exposed_comm_us + b.idle_us;
    const std::pair<const char*, double> values[] = {{"step", step},
                                                     {"compute", b.compute_us},
                                                     {"exposed_comm", b.exposed_comm_us},
                                                     {"hidden_comm", b.hidden_comm_us},
                                                     {"data", b.data_us},
                                                     {"idle", b.idle_us}};
    for (const auto& [what, us] : values) {
      out[{what, b.rank}].add(us);
      if (b.rank != kNull) out[{what, kNull}].add(us);
    }
  }
  return out;
}

DiffSets setsOf(const NameTotals& a, const NameTotals& b, bool device) {
  DiffSets out;
  std::set<std::string> names;
  for (const NameTotals* t : {&a, &b})
    for (const auto& [key, total] : t->one)
      if (key.first == device) names.insert(key.second);
  auto count = [&](const NameTotals& t, const std::string& name) {
    auto it = t.one.find({device, name});
    return it == t.one.end() ? 0.0 : it->second.count;
  };
  for (const std::string& name : names) {
    const double before = count(a, name), after = count(b, name);
    (before == 0      ? out.added
     : after == 0     ? out.deleted
     : after > before ? out.increased
     : after < before ? out.decreased
                      : out.unchanged)
        .push_back(name);
  }
  return out;
}

std::string signedPercent(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.1f %%", v);
  return text;
}

std::string changed(double us, const char* more, const char* less) {
  return humanNs(std::abs(us) * 1000) + " " + (us > 0 ? more : less);
}

/// "rank 2 computes 13.8 ms longer (+26.1 % of a step)"
std::string partText(const DiffPart& p) {
  const double us = p.after_us - p.before_us;
  const bool one = p.rank != kNull;
  const std::string who = one ? "rank " + std::to_string(p.rank) : "the ranks";
  std::string verb = p.what == "compute"        ? (one ? " computes " : " compute ")
                     : p.what == "exposed_comm" ? (one ? " only communicates " : " only communicate ")
                     : p.what == "data"         ? (one ? " copies or waits for data " : " copy or wait for data ")
                                                : (one ? " is idle " : " are idle ");
  return who + verb + changed(us, "longer", "less") + " (" + signedPercent(p.change_pct) + " of a step)";
}

/// Says what the table of parts says: every figure is one of its rows. `stepless`: the whole of a trace is one step.
std::string verdictOf(const Diff& d, bool stepless) {
  if (!d.per_step) return "steps cannot be compared: only one of the traces has them";
  if (d.parts.empty()) return "nothing to compare: one of the traces has no work in it";
  const DiffPart& step = d.parts.front();
  // Waiting for others is an effect. What a rank itself does explains a step, if it changed by at least half as much.
  const DiffPart *own = nullptr, *all = nullptr;
  for (const DiffPart& p : d.parts) {
    if (!p.significant || p.what == "step" || p.what == "hidden_comm") continue;
    if (step.significant && (p.change_pct > 0) != (step.change_pct > 0)) continue;
    const DiffPart*& most = p.rank == kNull ? all : own;
    if (p.rank != kNull && p.what == "exposed_comm") continue;
    if (!most || std::abs(p.change_pct) > std::abs(most->change_pct)) most = &p;
  }
  const std::string what = stepless ? "the recording" : "a step";
  const std::string percent = "(" + signedPercent(step.change_pct) + ")";
  if (!step.significant) {
    std::string text = what + " takes as long as before " + percent;
    if (own || all) text += ", but " + partText(own ? *own : *all);
    return text;
  }
  std::string text = what + " takes " + changed(step.after_us - step.before_us, "longer ", "less ") + percent;
  if (own && std::abs(own->change_pct) >= std::abs(step.change_pct) / 2)
    text += ": " + partText(*own);
  else if (all)
    text += ", mostly because " + partText(*all);
  return text;
}

}  // namespace

Result<Diff> diff(const Reader& a, const Reader& b, const DiffOptions& options) {
  AnalyzeOptions analyze_options;
  analyze_options.threads = options.threads;
  analyze_options.comm_rules = options.comm_rules;
  analyze_options.hta = analyze_options.collectives = false;
  analyze_options.kernels = SIZE_MAX;
  if (hasDeviceWork(a) != hasDeviceWork(b))
    return Status::invalid(std::string("these traces cannot be compared: nothing ran on a device in the ") +
                           (hasDeviceWork(a) ? "second" : "first") + " one");
  Result<Analysis> first = analyze(a, analyze_options), second = analyze(b, analyze_options);
  if (!first) return first.status();
  if (!second) return second.status();
  Result<NameTotals> before = totalsOf(a, options), after = totalsOf(b, options);
  if (!before) return before.status();
  if (!after) return after.status();

  Diff out;
  out.ops.rank_a = before->rank;
  out.ops.rank_b = after->rank;
  out.ops.step_a = before->step;
  out.ops.step_b = after->step;
  out.ops.cpu = setsOf(*before, *after, false);
  out.ops.gpu = setsOf(*before, *after, true);

  PartValues x = valuesOf(*first), y = valuesOf(*second);
  const int ranks_a = std::max(first->world_size.value_or(0), first->ranks);
  const int ranks_b = std::max(second->world_size.value_or(0), second->ranks);
  const bool same_ranks = ranks_a == ranks_b;
  out.per_step = first->steps.empty() == second->steps.empty();
  if (!out.per_step) x.clear();
  auto wall = [&](int64_t rank) { return x[{"step", rank}].mean(); };
  for (const char* what : {"step", "compute", "exposed_comm", "hidden_comm", "data", "idle"})
    for (auto& [key, old] : x) {
      auto now = y.find(key);
      if (key.first != what || now == y.end() || (key.second != kNull && !same_ranks)) continue;
      DiffPart p;
      p.what = what;
      p.rank = key.second;
      p.before_us = old.mean();
      p.after_us = now->second.mean();
      const double base = wall(p.rank), error = std::sqrt(old.error2() + now->second.error2());
      if (base <= 0) continue;
      p.change_pct = 100 * (p.after_us - p.before_us) / base;
      const double t = error > 0 ? std::abs(p.after_us - p.before_us) / error : 0;
      p.significant = std::abs(p.change_pct) >= kLeastChange && t >= kSure;
      p.confidence = p.significant ? std::min(0.99, 1 - std::exp(-t / 6)) : 0;
      if (p.rank == kNull || p.significant) out.parts.push_back(p);
    }
  std::stable_sort(out.parts.begin(), out.parts.end(), [](const DiffPart& p, const DiffPart& q) {
    if ((p.rank == kNull) != (q.rank == kNull)) return p.rank == kNull;
    if (p.rank == kNull) return false;
    return std::abs(p.change_pct) > std::abs(q.change_pct);
  });
  if (!out.parts.empty()) {
    out.before_step_us = out.parts.front().before_us;
    out.after_step_us = out.parts.front().after_us;
  }

  out.before_startup_us = first->startup_us;
  out.after_startup_us = second->startup_us;
  // Rows have the numbers of marked steps only. Where steps were found, the analysis has counted what is in them.
  for (auto [whole, totals] : {std::pair(&*first, &*before), std::pair(&*second, &*after)}) {
    if (whole->steps.empty() || whole->steps_by == "marks") continue;
    totals->all.clear();
    for (const KernelResult& k : whole->kernels)
      totals->all[{true, k.name}] = {static_cast<double>(k.count), k.total_us};
  }
  // Per step and rank, so that traces of different length can be compared.
  auto share = [&](const NameTotals& t, const Analysis& analysis) {
    const size_t steps = out.per_step ? std::max<size_t>(1, analysis.steps.size()) : 1;
    return static_cast<double>(std::max<size_t>(1, t.ranks.size()) * steps);
  };
  const double share_a = share(*before, *first), share_b = share(*after, *second);
  std::map<std::pair<bool, std::string>, DiffName> names;
  for (const auto& [key, total] : before->all) {
    DiffName& n = names[key];
    n.before_count = total.count / share_a;
    n.before_us = total.us / share_a;
  }
  for (const auto& [key, total] : after->all) {
    DiffName& n = names[key];
    n.after_count = total.count / share_b;
    n.after_us = total.us / share_b;
  }
  for (auto& [key, n] : names) {
    n.device = key.first;
    n.name = key.second;
    out.names.push_back(std::move(n));
  }
  std::stable_sort(out.names.begin(), out.names.end(), [](const DiffName& p, const DiffName& q) {
    if (p.device != q.device) return p.device;
    return std::abs(p.after_us - p.before_us) > std::abs(q.after_us - q.before_us);
  });
  if (out.names.size() > kNames) out.names.resize(kNames);
  if (!same_ranks)
    out.differs.push_back("ranks: " + std::to_string(ranks_a) + " before, " + std::to_string(ranks_b) +
                          " after; what a rank does on average is compared, not rank by rank");
  if (first->simulated != second->simulated)
    out.differs.push_back(std::string("the ") + (first->simulated ? "first" : "second") + " trace is simulated data");
  Result<std::vector<std::string>> settings = differingSettings(a, b);
  if (!settings) return settings.status();
  out.differs.insert(out.differs.end(), settings->begin(), settings->end());
  if (out.per_step && std::min(first->steps.size(), second->steps.size()) < 6)
    out.unknowns.push_back("there are fewer than six steps: changes cannot be distinguished from chance");
  out.verdict = verdictOf(out, first->steps.empty());
  return out;
}

}  // namespace tracesmith::analysis
