// A rank that follows the plans of a page: all ranks begin a plan at the same step, or none does.
//
// A plan holds from a step F on. A rank notes in the page at which of its steps it saw the plan first. At F it follows
// the plan if every rank had noted it at F - 1 - ahead or earlier. Nobody begins step F before all others have begun F
// - 1 - ahead, because the ranks exchange gradients in each step; so at F the notes are the same for all of them,
// whenever they look. A rank that sees a plan later than that leaves it, and then all do.
#pragma once

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
  /// Before the first step. It begins with the plan for step 0 if the page has one, otherwise with equal batches.
  static Result<std::unique_ptr<Follower>> open(const std::string& path, int64_t rank);

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
  void note(const std::string& text);

  const std::unique_ptr<PlanPage> page_;
  const int64_t rank_;
  Plan plan_;                    // in force
  std::optional<Plan> pending_;  // seen, not begun
  bool agreed_ = false;          // on pending_, by all ranks
  int64_t newest_ = 0;           // version looked at
  int64_t reports_ = 0;
  std::set<std::string> told_;
  std::vector<std::string> notes_;
};

}  // namespace tracesmith::schedule
