// Whom a rank is compared with: ranks on the same model of GPU, with the same part of a pipeline.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

namespace {

/// Sets of processes that grow together.
class Sets {
 public:
  int64_t of(int64_t process) {
    int64_t root = process;
    for (auto it = parents_.find(root); it != parents_.end() && it->second != root; it = parents_.find(root))
      root = it->second;
    if (root != process) parents_[process] = root;
    return root;
  }
  void join(int64_t a, int64_t b) {
    const int64_t x = of(a), y = of(b);
    if (x != y) parents_[std::max(x, y)] = std::min(x, y);
  }

 private:
  std::map<int64_t, int64_t> parents_;
};

}  // namespace

void findStages(JobData& job) {
  const PartTable& t = job.table;
  Sets lanes;  // pipelines: whoever sends something to whom
  std::vector<uint8_t> pair(t.comms.size()), used(t.comms.size());
  for (const Instance& in : t.instances) {
    used[in.comm] = 1;
    if (!isPair(in.op)) continue;
    pair[in.comm] = 1;
    const std::vector<int32_t>& members = t.comms[in.comm].members;
    for (int32_t m : members) lanes.join(members.front(), m);
  }
  if (std::find(pair.begin(), pair.end(), 1) == pair.end()) return;
  Sets stages;
  for (size_t c = 0; c < t.comms.size(); ++c) {
    if (pair[c] || !used[c]) continue;
    std::set<int64_t> crossed;
    for (int32_t m : t.comms[c].members) crossed.insert(lanes.of(m));
    if (crossed.size() < t.comms[c].members.size()) continue;  // of several stages: all ranks, first and last, ...
    for (int32_t m : t.comms[c].members) stages.join(t.comms[c].members.front(), m);
  }
  std::map<int64_t, uint32_t> numbers;
  for (const auto& [process, range] : t.of_process)
    job.stage_of[process] =
        numbers.try_emplace(stages.of(process), static_cast<uint32_t>(numbers.size())).first->second;
}

std::vector<uint32_t> alike(const JobData& job, bool by_stage) {
  using Key = std::tuple<uint32_t, int64_t, int64_t>;  // model, role or kNull, and stage or −1
  auto keyOf = [&](const RankFigures& r) {
    auto role = job.role_of.find(r.process);
    return Key{job.models.of(r.process), role == job.role_of.end() ? trace::kNull : role->second,
               job.stageOf(r.process)};
  };
  std::map<Key, size_t> sizes;
  for (const RankFigures& r : job.ranks) ++sizes[keyOf(r)];
  std::map<Key, uint32_t> numbers;
  std::vector<uint32_t> out;
  for (const RankFigures& r : job.ranks) {
    Key key = keyOf(r);
    if (!by_stage || sizes[key] < 2) std::get<2>(key) = -1;
    out.push_back(numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second);
  }
  return out;
}

double computeOf(const RankFigures& rank) {
  std::vector<double> values;
  for (const StepFigures& f : rank.steps)
    if (f.known() && f.computeNs() > 0) values.push_back(static_cast<double>(f.computeNs()));
  return median(std::move(values));
}

double usualCompute(const JobData& job, uint32_t model) {
  std::vector<double> values;
  for (const RankFigures& r : job.ranks)
    if (job.models.of(r.process) == model) values.push_back(computeOf(r));
  // Of two, the slower one may be slow for a reason of its own.
  return values.size() == 2 ? quantile(std::move(values), 0) : median(std::move(values));
}

std::optional<MixedDevices> findMixed(const JobData& job) {
  constexpr double kLeast = 1.05;  // times as long: models as close as that set no pace
  if (!job.models.mixed()) return {};
  std::map<uint32_t, size_t> ranks;  // by model
  for (const RankFigures& r : job.ranks)
    if (const uint32_t model = job.models.of(r.process)) ++ranks[model];
  uint32_t slowest = 0, most = 0;
  double longest = 0;
  for (const auto& [model, count] : ranks)
    if (const double own = usualCompute(job, model); own > longest) {
      longest = own;
      slowest = model;
    }
  MixedDevices out;
  std::vector<double> others;
  for (const auto& [model, count] : ranks) {
    if (model == slowest) continue;
    others.insert(others.end(), count, usualCompute(job, model));
    out.other_models += (out.other_models.empty() ? "" : ", ") + job.models.names()[model];
    if (!most || count > ranks[most]) most = model;
  }
  const double usual = median(std::move(others));
  if (!(longest >= kLeast * usual)) return {};
  out.slow_model = job.models.names()[slowest];
  out.factor = longest / usual;
  for (const RankFigures& r : job.ranks)
    if (job.models.of(r.process) == slowest) out.slow.push_back(job.rankOf(r.process));
  out.alone = out.slow.size() == 1;
  out.measured_ratio = job.models.measuredRatio(slowest, most);
  return out;
}

std::string ranksText(std::vector<int64_t> ranks) {
  constexpr size_t kMost = 8;
  std::sort(ranks.begin(), ranks.end());
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
  if (ranks.size() > 2 && ranks.back() - ranks.front() == static_cast<int64_t>(ranks.size()) - 1)
    return "ranks " + std::to_string(ranks.front()) + " to " + std::to_string(ranks.back());
  std::string text = "ranks ";
  for (size_t i = 0; i < ranks.size() && i < kMost; ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return ranks.size() > kMost ? text + " and " + std::to_string(ranks.size() - kMost) + " more" : text;
}

}  // namespace tracesmith::analysis
