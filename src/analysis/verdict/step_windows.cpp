#include <algorithm>

#include "analysis/verdict/rank_figures.hpp"

namespace tracesmith::analysis {

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
