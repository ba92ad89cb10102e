// The jobs that a master balances (schedule/cluster_job.hpp): one object for each, whatever comes in finds its job, and
// plans find their nodes. What it keeps has a limit, and jobs that are silent go.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/api.hpp"
#include "schedule/cluster_job.hpp"

namespace tracesmith::cluster {

/// Thread safe.
class BalanceDesk {
 public:
  /// Sends a plan to the agent of a node; if that is not connected, it says later that it does not have the plan.
  using Send = std::function<void(const std::string& node, const PlanOrder& order)>;
  BalanceDesk(std::function<int64_t()> now, Send send) : now_(std::move(now)), send_(std::move(send)) {}

  /// From the agent of a node.
  void take(const std::string& node, const JobNews& news);
  /// From workers, which get answers in the same order. The first that cannot be ends it; those before it
  /// count.
  Result<std::vector<WorkerPlan>> work(const std::vector<WorkerStep>& steps);
  Status undo(const std::string& job);
  Status setDryRun(const std::string& job, bool dry_run);
  BalanceStatus status();

  static constexpr size_t kMostJobs = 256;
  static constexpr int64_t kMostRanks = 200'000;          ///< of all jobs: some hundred bytes each
  static constexpr int64_t kMostWorkers = 4096;           ///< of a job that reports over HTTP
  static constexpr int64_t kForgetNs = 3600'000'000'000;  ///< silent for so long: the job is over
  static constexpr int64_t kSilentNs = 60'000'000'000;    ///< may go if there is no room

 private:
  using Job = schedule::ClusterJob;
  Result<Job*> find(const std::string& id);
  Result<Job*> findOrMake(const JobTerms& terms);
  void forgetSilent();
  void send(const Job& job);

  const std::function<int64_t()> now_;
  const Send send_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::unique_ptr<Job>> jobs_;
};

}  // namespace tracesmith::cluster
