// What the figures of all ranks have in common.
#include "analysis/verdict/rank_figures.hpp"

#include <algorithm>

#include "model/hook_names.hpp"

namespace tracesmith::analysis {

namespace {

/// As CUPTI, Nsight Systems and ROCm name it.
bool isCopyToHost(std::string_view name) {
  for (std::string_view word : {"DtoH", "Device-to-Host", "DeviceToHost"})
    if (name.find(word) != name.npos) return true;
  return false;
}

}  // namespace

FigureContext::FigureContext(const trace::NameNumbers& n, const TraceSteps& s, const KernelReference& r,
                             const model::CommRules& all)
    : names(n), steps(s), reference(r) {
  for (uint32_t i = 0; i < names.size(); ++i) {
    phases.push_back(phaseOfName(names.text(i)));
    pauses.push_back(pauseOfName(names.text(i)));
    wanted.push_back(phases.back() != Phase::none || pauses.back() != Pause::none ||
                     names.text(i) == model::kEvaluation);
    to_host.push_back(isCopyToHost(names.text(i)));
    optimizer.push_back(isOptimizerKernel(names.text(i)));
    rules.push_back(all.match(names.text(i)));
    excluded.push_back(!rules.back() && all.excludes(names.text(i)));
    host_calls.push_back(all.matchHost(names.text(i)) || names.text(i).starts_with("c10d::"));
  }
}

void leaveOutEvaluations(const trace::NameNumbers& names, const RankRows& rows, std::vector<StepFigures>& steps) {
  for (const HostRange& r : rows.ranges) {
    if (names.text(r.name) != model::kEvaluation) continue;
    auto after =
        std::upper_bound(steps.begin(), steps.end(), r.ts, [](int64_t ts, const StepFigures& f) { return ts < f.ts; });
    // Not in the middle of a step, where somebody else calls something so.
    if (after == steps.begin() || after == steps.end() || r.end > after->ts) continue;
    StepFigures& before = *std::prev(after);
    before.end = std::min(before.end, std::max(before.ts + 1, r.ts));
  }
}

std::vector<StepFigures> windowsOf(const std::vector<RankStep>& steps, const RankRows& rows, int64_t window_ns) {
  std::vector<StepFigures> out;
  for (int64_t at = rows.first; steps.empty() && window_ns > 0 && at < rows.last; at = out.back().end) {
    StepFigures f;
    f.step = at / window_ns;
    f.ts = at;
    f.end = std::min(rows.last, (f.step + 1) * window_ns);
    out.push_back(f);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!out.empty() && steps[i].ts < out.back().end) continue;  // nested or doubled
    if (!out.empty()) out.back().end = steps[i].ts;
    StepFigures f;
    f.step = steps[i].step;
    f.ts = steps[i].ts;
    f.end = steps[i].end;
    out.push_back(f);
  }
  if (out.empty() && rows.first < rows.last) {
    StepFigures f;
    f.ts = rows.first;
    f.end = rows.last;
    out.push_back(f);
  }
  return out;
}

}  // namespace tracesmith::analysis
