#include "schedule/plan.hpp"

#include <cmath>

#include "schedule/batches.hpp"

namespace tracesmith::schedule {

int64_t Plan::total() const {
  int64_t sum = 0;
  for (const RankPlan& r : ranks) sum += r.batch;
  return sum;
}

std::vector<int64_t> Plan::batches() const {
  std::vector<int64_t> out;
  for (const RankPlan& r : ranks) out.push_back(r.batch);
  return out;
}

Plan planOf(const std::vector<int64_t>& batches, const std::vector<int64_t>& micro_batches) {
  Plan plan;
  const std::vector<double> weights = gradientWeights(batches);
  for (size_t r = 0; r < batches.size(); ++r)
    plan.ranks.push_back({batches[r], r < micro_batches.size() ? micro_batches[r] : 1, weights[r], 0, 0});
  return plan;
}

Plan uniformPlan(int64_t total, int64_t ranks) {
  std::vector<int64_t> batches;
  for (int64_t r = 0; r < ranks; ++r) batches.push_back(total / ranks + (r < total % ranks ? 1 : 0));
  return planOf(batches);
}

Status checkPlan(const Plan& plan, int64_t ranks, int64_t total) {
  const std::string name = "plan " + std::to_string(plan.version);
  if (static_cast<int64_t>(plan.ranks.size()) != ranks)
    return Status::invalid(name + " is for " + std::to_string(plan.ranks.size()) + " ranks, but the job has " +
                           std::to_string(ranks));
  double weights = 0;
  int64_t samples = 0;
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    if (rank.batch < 1 || rank.batch > total || rank.micro_batches < 1 || rank.micro_batches > rank.batch ||
        rank.layers < 0 || rank.priority < 0 || !std::isfinite(rank.weight) || rank.weight <= 0)
      return Status::invalid(name + " gives rank " + std::to_string(r) + " " + std::to_string(rank.batch) +
                             " samples in " + std::to_string(rank.micro_batches) + " micro-batches, weight " +
                             std::to_string(rank.weight) + ": it cannot follow that");
    weights += rank.weight;
    samples += rank.batch;
  }
  if (samples != total)
    return Status::invalid(name + " has " + std::to_string(samples) + " samples in a step instead of " +
                           std::to_string(total));
  if (std::abs(weights - 1) > 1e-9)
    return Status::invalid(name + " has weights with the sum " + std::to_string(weights) + " instead of 1");
  return {};
}

}  // namespace tracesmith::schedule
