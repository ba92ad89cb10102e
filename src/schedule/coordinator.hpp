// The coordinator of a job on one node: reads what ranks measured from the page, and publishes plans that pay. It may
// be in rank 0 or in a process of its own. If it ends, the last plan stays in force, and another may go on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schedule/job_balance.hpp"
#include "schedule/plan_page.hpp"

namespace tracesmith::schedule {

/// Of one thread.
class Coordinator {
 public:
  /// Ranks and total are those of the page, whatever `config` says. Busy: the job has a coordinator.
  static Result<std::unique_ptr<Coordinator>> start(const std::string& path, BalancerConfig config);

  /// Reads what is new and publishes a plan if one pays. Call it about once a step. What happened, in sentences.
  Result<std::vector<std::string>> turn();
  /// Publishes the plan before this one.
  Status undo();

  const Balancer& balancer() const { return balance_.balancer(); }
  /// Published, but no rank has begun it yet.
  const std::optional<Plan>& published() const { return balance_.next(); }

 private:
  Coordinator(std::unique_ptr<PlanPage> page, JobBalance balance, const BalancerConfig& config);
  Status goOn();
  Status collect();
  void settle();
  Status publish(Plan plan);

  const std::unique_ptr<PlanPage> page_;
  JobBalance balance_;
  const bool dry_run_;
  std::vector<int64_t> read_;  // reports of each rank
  int64_t begun_ = 0;          // steps, by the rank that is furthest
};

}  // namespace tracesmith::schedule
