// A job that a master knows: what its nodes find in their pages, or its workers send over HTTP, comes in; plans go out.
//
//   master    its ranks are on several nodes, and this object makes the plans. Every page of the job gets a plan; when
//             all ranks have it, they vote it in (schedule/follower.hpp), and their pages say since which step it holds
//   workers   this object makes the plans for workers that report over HTTP and get them as answers
//   rank      its rank 0 makes the plans; this object only watches, so that they can be seen
//
// A plan is made only when all ranks were heard of. So after a restart the versions in all pages are known before a new
// one is chosen, and of two masters that each have a part of the nodes none makes a plan.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "schedule/job_balance.hpp"
#include "schedule/terms.hpp"

namespace tracesmith::schedule {

/// Only computes. Of one thread.
class ClusterJob {
 public:
  static Result<std::unique_ptr<ClusterJob>> create(const model::JobTerms& terms, int64_t now_ns);

  /// What the agent of a node tells. An error says why it is left out.
  Status take(const std::string& node, const model::JobNews& news, int64_t now_ns);
  /// What a worker tells, and what it is answered. Invalid: it cannot be of this job.
  Result<model::WorkerPlan> work(const model::WorkerStep& step, int64_t now_ns);

  /// The nodes whose pages do not have the plan that was made last.
  std::vector<std::string> waiting() const;
  /// The plan for them.
  model::JobPlan plan() const { return toTravel(*balance_.next(), false); }

  Status undo(int64_t now_ns);
  Status setDryRun(bool dry_run, int64_t now_ns);
  model::BalancedJob state(int64_t now_ns) const;
  int64_t heardNs() const { return heard_ns_; }
  const model::JobTerms& terms() const { return terms_; }

 private:
  struct Rank {
    std::string node;
    bool known = false;
    int64_t begun = 0, read = 0;  // read: reports
  };
  ClusterJob(const model::JobTerms& terms, JobBalance balance, int64_t now_ns);
  bool complete() const;
  void takeRank(const std::string& node, const model::RankNews& news, const std::vector<Plan>& plans);
  void takePlans(const std::string& node, const std::vector<Plan>& plans, const std::vector<model::RankNews>& ranks);
  void adopt(int64_t version, int64_t from_step, const std::vector<Plan>& plans);
  void rate(const StepMeasure& measure);
  void turn(int64_t now_ns);
  void put(Plan plan);
  void keepSaid(int64_t now_ns);
  model::WorkerPlan answerTo(const model::WorkerStep& step) const;

  model::JobTerms terms_;
  JobBalance balance_;
  std::vector<Rank> ranks_;
  struct Node {
    int64_t newest = 0;  // version in its page
    int64_t heard_ns = 0;
  };
  std::map<std::string, Node> nodes_;
  bool resumed_ = false;
  int64_t begun_ = 0;  // steps, by the rank that is furthest
  int64_t heard_ns_;
  std::deque<model::JobRate> rates_;
  int64_t rate_every_ = 1;  // steps between two that are kept
  std::deque<model::JobNote> notes_;
};

}  // namespace tracesmith::schedule
