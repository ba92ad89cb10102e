#include "trace/import/step_index.hpp"

#include <algorithm>
#include <set>

namespace tracesmith::trace {
namespace {
constexpr size_t kMaxSteps = 1u << 20;
constexpr size_t kMaxRuns = 1u << 19;
}  // namespace

void StepIndex::add(int64_t ts, int64_t dur, int64_t step) {
  int64_t end;
  if (dur <= 0 || steps_.size() >= kMaxSteps || __builtin_add_overflow(ts, dur, &end)) return;
  steps_.push_back({ts, end, step});
}

void StepIndex::seal() {
  struct Edge {
    int64_t time;
    size_t index;
    bool begin;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < steps_.size(); ++i) {
    edges.push_back({steps_[i].from, i, true});
    edges.push_back({steps_[i].to, i, false});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });
  std::set<size_t> open;
  segments_.clear();
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].begin)
      open.insert(edges[e].index);
    else
      open.erase(edges[e].index);
    if (open.empty() || e + 1 == edges.size() || edges[e + 1].time == edges[e].time) continue;
    segments_.push_back({edges[e].time, edges[e + 1].time, steps_[*open.rbegin()].step});
  }
}

int64_t StepIndex::at(int64_t ts) const {
  auto it =
      std::upper_bound(segments_.begin(), segments_.end(), ts, [](int64_t t, const Span& s) { return t < s.from; });
  if (it == segments_.begin()) return kNull;
  --it;
  return ts < it->to ? it->step : kNull;
}

void StepIndex::launch(int64_t c, int64_t step) {
  auto after = runs_.upper_bound(c);
  auto before = after == runs_.begin() ? runs_.end() : std::prev(after);
  if (before != runs_.end()) {
    Run& run = before->second;
    if (run.step == step) {
      run.last = std::max(run.last, c);
      return;
    }
    if (c <= run.last) {  // cuts the run
      if (runs_.size() >= kMaxRuns) return;
      int64_t last = run.last, other = run.step;
      if (before->first == c)
        run = {c, step};
      else
        run.last = c - 1;
      if (last > c) runs_[c + 1] = {last, other};
      runs_.insert_or_assign(c, Run{c, step});
      return;
    }
  }
  if (after != runs_.end() && after->second.step == step) {
    auto node = runs_.extract(after);
    node.key() = c;
    runs_.insert(std::move(node));
  } else if (runs_.size() < kMaxRuns) {
    runs_[c] = {c, step};
  }
}

int64_t StepIndex::ofLaunch(int64_t c) const {
  auto it = runs_.upper_bound(c);
  if (it == runs_.begin()) return kNull;
  --it;
  return c <= it->second.last ? it->second.step : kNull;
}

}  // namespace tracesmith::trace
