// A rank that follows the plans of a page: all ranks begin a plan at the same step, or none does.
//
// Ranks on one node have one page. A plan holds from a step F on. A rank notes in the page at which of its steps it saw
// the plan first. At F it follows the plan if every rank had noted it at F - 1 - ahead or earlier. Nobody begins step F
// before all others have begun F - 1 - ahead, because the ranks exchange gradients in each step; so at F the notes are
// the same for all of them, whenever they look. A rank that sees a plan later than that leaves it, and then all do.
//
// Ranks on several nodes have a page on each node, and a plan reaches the pages at different times. These ranks vote.
// Every kVoteEvery + ahead steps each rank says which plan it has: its version and what is in it. The caller takes the
// minimum over all ranks of what each says, by a collective of its own, and gives it to all of them kVoteWait + ahead
// steps later. If all said the same, the plan is in force from that step on. All ranks get the same minimum, so they
// decide the same; and a rank keeps what it voted for, whatever becomes of its page. When a rank comes to the step at
// which it needs the minimum, all others have begun the step of the vote, so nobody waits long.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/plan_page.hpp"

namespace tracesmith::schedule {

/// One rank of a job. Of one thread.
class Follower {
 public:
  static constexpr int64_t kVoteEvery = 8, kVoteWait = 4;

  /// Before the first step. It begins with the plan for step 0 if the page has one, otherwise with equal batches.
  static Result<std::unique_ptr<Follower>> open(const std::string& path, int64_t rank);

  // Where ranks vote: before begin(), in this order.
  /// The minimum of the last vote is needed before this step.
  bool due(int64_t step) const;
  void counted(int64_t step, const std::vector<int64_t>& least);
  /// What this rank says before this step; empty: there is no vote.
  std::vector<int64_t> ballot(int64_t step);

  /// Step `step` begins (its batch is fetched): what all ranks do in it. Steps are begun in order.
  const Plan& begin(int64_t step);
  /// What rank `rank` measured. Errors of the page are notes: the training goes on.
  void report(const StepMeasure& measure);
  void outOfMemory(int64_t batch);

  int64_t rank() const { return rank_; }
  const Plan& plan() const { return plan_; }
  const PlanPage& page() const { return *page_; }
  /// What went wrong since the last call. The same is told once.
  std::vector<std::string> takeNotes();

 private:
  Follower(std::unique_ptr<PlanPage> page, int64_t rank, Plan first);
  void look(int64_t step);
  void settle(int64_t step);
  void follow(Plan plan);
  std::optional<Plan> news();
  bool first() const;
  void missAgent(int64_t step);
  void note(const std::string& text);

  const std::unique_ptr<PlanPage> page_;
  const int64_t rank_;
  Plan plan_;                    // in force
  std::optional<Plan> pending_;  // seen or voted for, not begun
  bool agreed_ = false;          // on pending_, by all ranks
  int64_t newest_ = 0;           // version looked at
  int64_t voted_ = -1;           // step of the vote that is not counted yet; -1: none
  int64_t reports_ = 0;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  std::set<std::string> told_;
  std::vector<std::string> notes_;
};

}  // namespace tracesmith::schedule
