// The coordinator of a job on one node: reads what ranks measured from the page, and publishes plans that pay. It may
// be in rank 0 or in a process of its own. If it ends, the last plan stays in force, and another may go on.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schedule/balancer.hpp"
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

  const Balancer& balancer() const { return balancer_; }
  /// Published, but no rank has begun it yet.
  const std::optional<Plan>& published() const { return published_; }

 private:
  Coordinator(std::unique_ptr<PlanPage> page, Balancer balancer, const BalancerConfig& config);
  Status goOn();
  Status collect();
  void settle();
  Status publish(Plan plan);

  const std::unique_ptr<PlanPage> page_;
  Balancer balancer_;
  const bool dry_run_;
  std::optional<Plan> published_;
  std::vector<int64_t> read_;    // reports of each rank
  std::vector<int64_t> memory_;  // out of memory at, as last told
  int64_t begun_ = 0;            // steps, by the rank that is furthest
  int64_t outcome_ = 0;          // version of the plan whose outcome was told last
  std::vector<bool> doubted_;    // ranks with a measurement that was left out: told once
  std::vector<std::string> said_;
  std::string refused_;  // the last reason why there is no plan
};

}  // namespace tracesmith::schedule
