#include "schedule/job_balance.hpp"

#include <cmath>
#include <utility>

namespace tracesmith::schedule {

namespace {

std::string percent(double part) { return std::to_string(std::lround(100 * part)) + " %"; }

std::string nameOf(const Plan& plan) { return "Plan " + std::to_string(plan.version); }

}  // namespace

JobBalance::JobBalance(Balancer balancer, int64_t ranks)
    : balancer_(std::move(balancer)),
      memory_(static_cast<size_t>(ranks), 0),
      doubted_(static_cast<size_t>(ranks), false) {}

Result<JobBalance> JobBalance::create(const BalancerConfig& config) {
  Result<Balancer> balancer = Balancer::create(config);
  if (!balancer) return balancer.status();
  return JobBalance(std::move(*balancer), config.ranks);
}

Status JobBalance::add(int64_t rank, const StepMeasure& measure) {
  Status status = balancer_.add(rank, measure);
  for (std::string& line : balancer_.takeNews()) said_.push_back(std::move(line));
  const auto r = static_cast<size_t>(rank);
  if (!status && r < doubted_.size() && !doubted_[r]) {
    said_.push_back("Left out: " + status.message() + ".");
    doubted_[r] = true;
  }
  return status;
}

void JobBalance::outOfMemory(int64_t rank, int64_t batch) {
  const auto r = static_cast<size_t>(rank);
  if (r >= memory_.size() || batch < 1 || memory_[r] == batch) return;
  memory_[r] = batch;
  balancer_.outOfMemory(rank, batch);
  said_.push_back("Memory of rank " + std::to_string(rank) + " does not suffice for " + std::to_string(batch) +
                  " samples at once: it gets fewer from now on.");
}

std::optional<Plan> JobBalance::propose(int64_t begun) {
  if (next_) return {};
  Result<std::optional<Plan>> plan = balancer_.propose(begun);
  sayOutcome();
  const std::string refused = plan ? "" : plan.status().message();
  if (!refused.empty() && refused != refused_) said_.push_back("No plan: " + refused + ".");
  refused_ = refused;
  return plan ? std::move(*plan) : std::nullopt;
}

void JobBalance::sayOutcome() {
  const std::vector<PlanOutcome>& all = balancer_.outcomes();
  if (all.empty() || all.back().version <= outcome_) return;
  const PlanOutcome& o = all.back();
  outcome_ = o.version;
  said_.push_back("Plan " + std::to_string(o.version) + ": steps are " + percent(std::abs(o.real_gain)) +
                  (o.real_gain < 0 ? " longer" : " shorter") + "; predicted were " + percent(o.predicted_gain) + ".");
}

Result<Plan> JobBalance::undo(int64_t begun) {
  if (next_) return Status::busy("another plan is about to begin: try again in a few steps");
  return balancer_.undo(begun);
}

void JobBalance::published(Plan plan, bool from_step) {
  said_.push_back(nameOf(plan) + (from_step ? " for step " + std::to_string(plan.from_step) : "") + ": " + plan.reason);
  balancer_.noteVersion(plan.version);
  next_ = std::move(plan);
}

void JobBalance::dryRun(const Plan& plan) { said_.push_back("Dry run: " + plan.reason); }

void JobBalance::inForce(int64_t from_step) {
  if (!next_) return;
  next_->from_step = from_step;
  said_.push_back(nameOf(*next_) + " is in force from step " + std::to_string(from_step) + ".");
  balancer_.inForce(*next_, from_step);
  next_.reset();
}

void JobBalance::leftOut() {
  if (!next_) return;
  said_.push_back(nameOf(*next_) + " is left out: not every rank saw it in time.");
  balancer_.leftOut();
  next_.reset();
}

std::vector<std::string> JobBalance::takeSaid() { return std::exchange(said_, {}); }

}  // namespace tracesmith::schedule
