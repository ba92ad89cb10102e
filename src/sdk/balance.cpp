#include "sdk/balance.hpp"

namespace tracesmith::sdk {

using namespace schedule;

Status BalanceCoordinator::create() {
  if (coordinator_) return Status::invalid("it coordinates already");
  // A job that cannot be is refused before there is a page.
  if (const Result<Balancer> possible = Balancer::create(config_.balancer); !possible) return possible.status();
  const auto page =
      createPage(config_.path, termsOf(config_.job, model::Coordination::rank, config_.ahead, config_.balancer));
  return page ? attach() : page.status();
}

Status BalanceCoordinator::createForMaster() {
  const Result<Balancer> balancer = Balancer::create(config_.balancer);
  if (!balancer) return balancer.status();
  const auto page =
      createPage(config_.path, termsOf(config_.job, model::Coordination::master, config_.ahead, config_.balancer));
  if (!page) return page.status();
  Plan first = balancer->plan();
  first.version = kFirstVersion;
  return (*page)->publish(first);
}

Status BalanceCoordinator::attach() {
  if (coordinator_) return Status::invalid("it coordinates already");
  Result<std::unique_ptr<Coordinator>> made = Coordinator::start(config_.path, config_.balancer);
  if (!made) return made.status();
  coordinator_ = std::move(*made);
  return {};
}

Result<std::vector<std::string>> BalanceCoordinator::turn() {
  if (!coordinator_) return Status::invalid("it has no job yet: call create() or attach() first");
  return coordinator_->turn();
}

Status BalanceCoordinator::undo() {
  if (!coordinator_) return Status::invalid("it has no job yet: call create() or attach() first");
  return coordinator_->undo();
}

Result<BalanceState> BalanceCoordinator::state() const {
  if (!coordinator_) return Status::invalid("it has no job yet: call create() or attach() first");
  const Balancer& balancer = coordinator_->balancer();
  BalanceState state{balancer.plan(), {}, balancer.outcomes()};
  for (const SpeedTracker& t : balancer.speeds())
    state.ranks.push_back({t.speed(), t.steps(), t.changes(), t.refused(), t.slowdown(), t.slowSince()});
  return state;
}

Status BalanceRank::open() {
  Result<std::unique_ptr<Follower>> follower = Follower::open(config_.path, config_.rank);
  if (!follower) return follower.status();
  follower_ = std::move(*follower);
  return {};
}

Result<Plan> BalanceRank::begin(int64_t step, int64_t samples) {
  if (!follower_) return Status::invalid("call open() first");
  Plan plan = follower_->begin(step);
  if (samples == plan.total()) return plan;
  std::vector<double> weights;
  for (const RankPlan& r : plan.ranks) weights.push_back(r.weight);
  std::vector<BatchLimits> limits(plan.ranks.size());
  for (size_t r = 0; r < limits.size(); ++r) limits[r].most = plan.ranks[r].batch;  // more might not fit
  const Result<std::vector<int64_t>> batches = proportionalBatches(samples, weights, limits);
  if (!batches) return batches.status();
  Plan fewer = planOf(*batches);
  for (size_t r = 0; r < fewer.ranks.size(); ++r) {
    fewer.ranks[r].layers = plan.ranks[r].layers;
    fewer.ranks[r].priority = plan.ranks[r].priority;
    fewer.ranks[r].micro_batches = std::min(plan.ranks[r].micro_batches, fewer.ranks[r].batch);
  }
  plan.ranks = fewer.ranks;
  return plan;
}

Result<bool> BalanceRank::due(int64_t step) {
  if (!follower_) return Status::invalid("call open() first");
  return follower_->due(step);
}

Status BalanceRank::counted(int64_t step, const std::vector<int64_t>& least) {
  if (!follower_) return Status::invalid("call open() first");
  follower_->counted(step, least);
  return {};
}

Result<std::vector<int64_t>> BalanceRank::ballot(int64_t step) {
  if (!follower_) return Status::invalid("call open() first");
  return follower_->ballot(step);
}

Status BalanceRank::report(int64_t step, int64_t samples, double busy_s, double wall_s) {
  if (!follower_) return Status::invalid("call open() first");
  follower_->report({step, samples, busy_s, wall_s});
  return {};
}

Status BalanceRank::outOfMemory(int64_t batch) {
  if (!follower_) return Status::invalid("call open() first");
  follower_->outOfMemory(batch);
  return {};
}

std::vector<std::string> BalanceRank::notes() {
  return follower_ ? follower_->takeNotes() : std::vector<std::string>();
}

}  // namespace tracesmith::sdk
