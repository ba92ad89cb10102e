#include "schedule/follower.hpp"

#include <utility>

namespace tracesmith::schedule {

Result<std::unique_ptr<Follower>> Follower::open(const std::string& path, int64_t rank) {
  Result<std::unique_ptr<PlanPage>> page = PlanPage::open(path);
  if (!page) return page.status();
  const JobShape shape = (*page)->shape();
  if (rank < 0 || rank >= shape.ranks)
    return Status::invalid(path + " is for " + std::to_string(shape.ranks) + " ranks: there is no rank " +
                           std::to_string(rank));
  Plan first = uniformPlan(shape.total, shape.ranks);
  if (const Result<Plan> plan = (*page)->plan(kFirstVersion); plan && plan->from_step == 0) {
    TS_TRY(checkPlan(*plan, shape.ranks, shape.total));
    first = *plan;
  }
  return std::unique_ptr<Follower>(new Follower(std::move(*page), rank, std::move(first)));
}

Follower::Follower(std::unique_ptr<PlanPage> page, int64_t rank, Plan first)
    : page_(std::move(page)), rank_(rank), plan_(std::move(first)), newest_(plan_.version) {}

const Plan& Follower::begin(int64_t step) {
  if (const Status status = page_->begin(rank_, step); !status) note(status.message());
  settle(step);
  if (!pending_) look(step);
  return plan_;
}

void Follower::settle(int64_t step) {
  if (!pending_) return;
  agreed_ = agreed_ || page_->agreed(*pending_);
  if (step < pending_->from_step) return;
  if (agreed_)
    plan_ = std::move(*pending_);
  else
    note("plan " + std::to_string(pending_->version) + " is left out: not every rank saw it in time for step " +
         std::to_string(pending_->from_step));
  pending_.reset();
}

void Follower::look(int64_t step) {
  Result<Plan> latest = page_->latest();
  if (!latest) {
    if (latest.status().code() != Code::kNotFound)
      note(latest.status().message());
    else if (newest_ > 0)
      note(page_->path() + " has lost its plans: the last one stays in force");
    return;
  }
  if (latest->version <= newest_) return;
  newest_ = latest->version;
  if (const Status status = checkPlan(*latest, page_->shape().ranks, page_->shape().total); !status)
    return note(status.message());
  if (latest->from_step < step + 1 + page_->shape().ahead)
    return note("plan " + std::to_string(newest_) + " is left out: it came in step " + std::to_string(step) +
                ", too late for step " + std::to_string(latest->from_step));
  if (const Status status = page_->see(rank_, {newest_, step}); !status) return note(status.message());
  pending_ = std::move(*latest);
  agreed_ = false;
}

void Follower::report(const StepMeasure& measure) {
  if (const Status status = page_->report(rank_, reports_, measure); !status) return note(status.message());
  ++reports_;
}

void Follower::outOfMemory(int64_t batch) {
  if (const Status status = page_->outOfMemory(rank_, batch); !status) note(status.message());
}

void Follower::note(const std::string& text) {
  constexpr size_t kMostTold = 256;
  if (told_.size() < kMostTold && told_.insert(text).second) notes_.push_back(text);
}

std::vector<std::string> Follower::takeNotes() { return std::exchange(notes_, {}); }

}  // namespace tracesmith::schedule
