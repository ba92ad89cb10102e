// Balancing for other languages: the coordinator of a job on this node, its ranks, and the divisions by themselves.
#pragma once

#include <memory>
#include <optional>

#include "schedule/coordinator.hpp"
#include "schedule/follower.hpp"
#include "schedule/layers.hpp"
#include "schedule/terms.hpp"
#include "sdk/json.hpp"

namespace tracesmith::model {
NAMES(BalancePolicy, proportional, dynamic, hybrid)
}  // namespace tracesmith::model

namespace tracesmith::schedule {

FIELDS(BalancerConfig, ranks, total, policy, speeds, most_batch, accumulate, micro_batch, least_gain, change_cost_s,
       horizon_steps, settle_steps, dry_run)
FIELDS(RankPlan, batch, micro_batches, weight, layers, priority)
FIELDS(Plan, version, from_step, ranks, before_s, after_s, reason)
FIELDS(PlanOutcome, version, predicted_gain, real_gain)
FIELDS(LayerCost, time_s, memory_bytes, output_bytes)
FIELDS(Stage, speed, memory_bytes, link_bytes_per_s)
FIELDS(LayerPartition, layers, slowest_s)

}  // namespace tracesmith::schedule

namespace tracesmith::sdk {

struct BalanceCoordinatorConfig {
  std::string path;   ///< of the page
  std::string job;    ///< its id: the same on all nodes
  int64_t ahead = 0;  ///< batches that a rank may fetch before it trains on them
  schedule::BalancerConfig balancer;
};
FIELDS(BalanceCoordinatorConfig, path, job, ahead, balancer)

/// What a coordinator knows of a rank.
struct RankSpeed {
  double samples_per_s = 0;           ///< 0: not known
  int64_t steps = 0;                  ///< measured since it began or its speed changed
  int64_t changes = 0;                ///< of its speed
  int64_t refused = 0;                ///< measurements that were none
  double slowdown = 1;                ///< its steps take so many times as long as usual
  std::optional<int64_t> slow_since;  ///< step from which it has been slow; nothing: it is not
};
FIELDS(RankSpeed, samples_per_s, steps, changes, refused, slowdown, slow_since)

struct BalanceState {
  schedule::Plan plan;  ///< in force
  std::vector<RankSpeed> ranks;
  std::vector<schedule::PlanOutcome> outcomes;
};
FIELDS(BalanceState, plan, ranks, outcomes)

class BalanceCoordinator {
 public:
  explicit BalanceCoordinator(const BalanceCoordinatorConfig& config) : config_(config) {}

  /// Makes the page, and coordinates.
  Status create();
  /// Makes the page of this node for a job on several nodes, with the plan that the job begins with. A cluster's master
  /// coordinates it.
  Status createForMaster();
  /// Coordinates the job of a page that is there.
  Status attach();
  Result<std::vector<std::string>> turn();
  Status undo();
  Result<BalanceState> state() const;

 private:
  const BalanceCoordinatorConfig config_;
  std::unique_ptr<schedule::Coordinator> coordinator_;
};

struct BalanceRankConfig {
  std::string path;
  int64_t rank = 0;
};
FIELDS(BalanceRankConfig, path, rank)

class BalanceRank {
 public:
  explicit BalanceRank(const BalanceRankConfig& config) : config_(config) {}

  Status open();
  /// A step of `samples` samples of all ranks begins; fewer than the total in the last step of an epoch.
  Result<schedule::Plan> begin(int64_t step, int64_t samples);
  // Where ranks vote (schedule/follower.hpp), before begin().
  Result<bool> due(int64_t step);
  Status counted(int64_t step, const std::vector<int64_t>& least);
  Result<std::vector<int64_t>> ballot(int64_t step);
  Status report(int64_t step, int64_t samples, double busy_s, double wall_s);
  Status outOfMemory(int64_t batch);
  std::vector<std::string> notes();

 private:
  const BalanceRankConfig config_;
  std::unique_ptr<schedule::Follower> follower_;
};

}  // namespace tracesmith::sdk
