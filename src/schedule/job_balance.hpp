// The balancing of one job, wherever its measurements come from and its plans go: the balancer, the plan that was made
// and is not in force yet, and what happened, in sentences.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/balancer.hpp"

namespace tracesmith::schedule {

/// Of one thread.
class JobBalance {
 public:
  static Result<JobBalance> create(const BalancerConfig& config);

  /// An error says why it is left out.
  Status add(int64_t rank, const StepMeasure& measure);
  /// 0: memory sufficed so far.
  void outOfMemory(int64_t rank, int64_t batch);

  /// A plan that pays, if there is one and none is on its way; `begun`: steps. What it is for is then told by
  /// published() or dryRun().
  std::optional<Plan> propose(int64_t begun);
  /// The plan before, to be published.
  Result<Plan> undo(int64_t begun);
  /// On its way to the ranks. `from_step`: known already.
  void published(Plan plan, bool from_step);
  void dryRun(const Plan& plan);
  /// What was published is in force from that step on; or no rank follows it.
  void inForce(int64_t from_step);
  void leftOut();
  /// Goes on with a job that runs: `plan` is in force since `step`, `newest` is the last version that anybody has.
  void resume(const Plan& plan, int64_t step, int64_t newest) { balancer_.resume(plan, step, newest); }

  Balancer& balancer() { return balancer_; }
  const Balancer& balancer() const { return balancer_; }
  const std::optional<Plan>& next() const { return next_; }
  /// Why there can be no plan; empty: nothing is in the way.
  const std::string& problem() const { return refused_; }
  std::vector<std::string> takeSaid();

 private:
  JobBalance(Balancer balancer, int64_t ranks);
  void sayOutcome();

  Balancer balancer_;
  std::optional<Plan> next_;
  std::vector<int64_t> memory_;  // out of memory at, as last told
  std::vector<bool> doubted_;    // ranks with a measurement that was left out: told once
  int64_t outcome_ = 0;          // version of the plan whose outcome was told last
  std::string refused_;
  std::vector<std::string> said_;
};

}  // namespace tracesmith::schedule
