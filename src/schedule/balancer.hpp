// Decides when a running job should divide its samples differently, and how. It only computes: measurements come in,
// plans go out. Of one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/travel.hpp"
#include "schedule/batches.hpp"
#include "schedule/plan.hpp"
#include "schedule/speed.hpp"

namespace tracesmith::schedule {

/// proportional: by the speeds that were given, and by nothing else; without them, by the measured ones. dynamic: so
/// that the slowest rank is as fast as possible, by what was measured. hybrid: the same, but the given speeds count as
/// kPriorSteps measured steps.
using Policy = model::BalancePolicy;

struct BalancerConfig {
  int64_t ranks = 0;
  int64_t total = 0;  ///< samples of all ranks in a step
  Policy policy = Policy::hybrid;
  std::vector<double> speeds = {};       ///< relative, of each rank; empty: not known
  std::vector<int64_t> most_batch = {};  ///< that the memory of each rank holds; 0 or missing: not known
  bool accumulate = false;               ///< more than memory holds is trained in several micro-batches
  int64_t micro_batch = 0;               ///< every micro-batch has exactly so many samples; 0: any number
  double least_gain = 0.03;              ///< part of a step's time that a change must save
  double change_cost_s = 0;              ///< what a change costs the job once: recompiling, tuning kernels
  int64_t horizon_steps = 200;           ///< in which it must have paid off
  int64_t settle_steps = 4;              ///< that each rank measures before a decision
  bool dry_run = false;                  ///< plans are made and told, but not followed
};

/// What became of a plan.
struct PlanOutcome {
  int64_t version = 0;
  double predicted_gain = 0;
  double real_gain = 0;  ///< by the whole steps before and after
};

class Balancer {
 public:
  static Result<Balancer> create(const BalancerConfig& config);

  /// The plan that the job begins with: by the given speeds if the policy uses them, uniform otherwise.
  const Plan& plan() const { return plan_; }
  /// A rank's measurement. An error says why it is left out.
  Status add(int64_t rank, const StepMeasure& measure);
  /// Memory of the rank did not suffice for `batch` samples at once: it never gets so many again.
  void outOfMemory(int64_t rank, int64_t batch);

  /// A plan that pays, if there is one. It is only a proposal until inForce() is called; propose() gives nothing in
  /// between. An error says why there can be no plan at all.
  Result<std::optional<Plan>> propose(int64_t step);
  /// All ranks follow the proposal from `step` on; or none does.
  void inForce(const Plan& plan, int64_t step);
  void leftOut();
  /// The plan before this one, as a proposal; ranks that had grown may not grow again for a while. NotFound: there is
  /// none.
  Result<Plan> undo(int64_t step);
  /// Goes on where a coordinator that ended had stopped: `plan` is in force since `step`, and `newest` was the last
  /// version.
  void resume(const Plan& plan, int64_t step, int64_t newest);
  /// Somebody has a plan of this version: the next one gets a later one.
  void noteVersion(int64_t version);
  void setDryRun(bool dry_run);

  const std::vector<SpeedTracker>& speeds() const { return trackers_; }
  /// Ranks that became slow, or recovered, since the last call, in sentences.
  std::vector<std::string> takeNews() { return std::exchange(news_, {}); }
  /// Plans that were in force before, the newest last.
  const std::vector<Plan>& before() const { return before_; }
  const std::vector<PlanOutcome>& outcomes() const { return outcomes_; }
  const std::vector<BatchLimits>& limits() const { return limits_; }

  static constexpr double kPriorSteps = 4;
  static constexpr int64_t kMostGrowth = 4;  ///< of a rank's batch in one plan: one that lies does limited harm

 private:
  explicit Balancer(const BalancerConfig& config);
  Status limitsOf(const BalancerConfig& config);
  Result<std::vector<int64_t>> target() const;
  std::vector<RankCost> costs() const;
  std::vector<RankCost> costsToPlan() const;
  bool measured() const;
  bool tooLarge() const;
  bool pays(const Plan& plan) const;
  Plan asPlan(const std::vector<int64_t>& batches) const;
  void prioritise(Plan& plan, const std::vector<RankCost>& costs) const;
  std::string reasonFor(const Plan& plan, const std::vector<RankCost>& costs) const;
  void noteSpeed(int64_t rank, bool was_slow, int64_t step);
  bool judged() const;  // enough whole steps to tell what the plan was worth
  bool gotWorse();
  Plan goBack(int64_t step, std::string reason);
  Plan proposal(Plan plan);
  void noteDirection(const Plan& next);

  BalancerConfig config_;
  int64_t unit_ = 1;                 // samples that go together
  std::vector<BatchLimits> limits_;  // in samples
  std::vector<int64_t> held_;        // in samples: of ranks that grew in a plan that made steps longer; 0: not held
  int64_t held_until_ = 0;
  std::vector<SpeedTracker> trackers_;
  Plan plan_;
  std::vector<Plan> before_;  // plans that were in force, the newest last
  std::optional<Plan> proposed_;
  std::vector<int64_t> told_;   // batches of the last proposal of a dry run
  int64_t newest_ = 0;          // version that was proposed last
  int64_t since_ = 0;           // step from which plan_ holds
  std::deque<double> walls_;    // whole steps under plan_, the newest last
  double wall_before_ = 0;      // of the plan before; 0: not known, or plan_ is verified
  int64_t quiet_steps_ = 0;     // between two plans; grows when they go back and forth
  std::vector<int> direction_;  // of each rank's batch in the last plan
  std::vector<PlanOutcome> outcomes_;
  std::vector<std::string> news_;
  std::vector<bool> unsteady_;  // ranks of which the news said so
};

}  // namespace tracesmith::schedule
