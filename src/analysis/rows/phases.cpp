#include "analysis/rows/phases.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

namespace tracesmith::analysis {

namespace {

/// Its letters, small; empty: too long to be a word or two.
std::string lettersOf(std::string_view name) {
  std::string letters;
  if (name.size() > 32) return letters;
  for (char c : name)
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) letters += static_cast<char>(c | 32);
  return letters;
}

bool isOneOf(const std::string& letters, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), letters) != words.end();
}

}  // namespace

Pause pauseOfName(std::string_view name) {
  const std::string letters = lettersOf(name);
  if (isOneOf(letters, {"gc", "pythongc", "gccollect", "garbagecollection", "collectgarbage"}))
    return Pause::collection;
  // Not those of activations, which are computed again.
  if (isOneOf(letters, {"checkpoint", "savecheckpoint", "checkpointsave", "checkpointing", "torchsave", "savemodel"}))
    return Pause::checkpoint;
  return Pause::none;
}

Phase phaseOfName(std::string_view name) {
  if (name.starts_with("autograd::engine::evaluate_function")) return Phase::backward;
  if (name.starts_with("Optimizer.step") || name.starts_with("Optimizer.zero_grad")) return Phase::optimizer;
  if (name.ends_with("DataParallel.forward")) return Phase::forward;
  if (name.starts_with("enumerate(DataLoader)") || name.find("DataLoaderIter") != name.npos) return Phase::data;
  const std::string letters = lettersOf(name);
  auto is = [&](std::initializer_list<std::string_view> words) { return isOneOf(letters, words); };
  if (is({"forward", "fwd", "forwardpass", "forwardstep", "modelforward"})) return Phase::forward;
  if (is({"backward", "bwd", "backwardpass", "backwardstep", "lossbackward"})) return Phase::backward;
  if (is({"optimizer", "optimizerstep", "optstep", "optim"})) return Phase::optimizer;
  if (is({"data", "dataload", "dataloader", "dataloading", "loaddata", "getbatch", "nextbatch", "batchgenerator",
          "fetchbatch"}))
    return Phase::data;
  return Phase::none;
}

PhaseTimeline::PhaseTimeline(const std::vector<HostRange>& ranges, const std::vector<Phase>& phases) {
  struct Edge {
    int64_t time;
    size_t range;
    bool begin;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].end <= ranges[i].ts || phases[ranges[i].name] == Phase::none) continue;
    edges.push_back({ranges[i].ts, i, true});
    edges.push_back({ranges[i].end, i, false});
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });
  std::set<size_t> open;  // ranges are by start: the largest began last
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].begin)
      open.insert(edges[e].range);
    else
      open.erase(edges[e].range);
    if (open.empty() || e + 1 == edges.size() || edges[e + 1].time == edges[e].time) continue;
    const Phase phase = phases[ranges[*open.rbegin()].name];
    if (!segments_.empty() && segments_.back().to == edges[e].time && segments_.back().phase == phase)
      segments_.back().to = edges[e + 1].time;
    else
      segments_.push_back({edges[e].time, edges[e + 1].time, phase});
  }
}

Phase PhaseTimeline::at(int64_t ts) const {
  auto it =
      std::upper_bound(segments_.begin(), segments_.end(), ts, [](int64_t t, const Segment& s) { return t < s.from; });
  if (it == segments_.begin()) return Phase::none;
  --it;
  return ts < it->to ? it->phase : Phase::none;
}

bool PhaseTimeline::has(Phase phase) const {
  return std::any_of(segments_.begin(), segments_.end(), [phase](const Segment& s) { return s.phase == phase; });
}

Union PhaseTimeline::of(Phase phase) const {
  Union out;
  for (const Segment& s : segments_)
    if (s.phase == phase) out.add(s.from, s.to);
  return out;
}

}  // namespace tracesmith::analysis
