#include "schedule/follower.hpp"

#include <utility>

namespace tracesmith::schedule {

namespace {
constexpr int64_t kAgentSteps = 24;                    // an agent that runs has come by then
constexpr auto kAgentTime = std::chrono::seconds(10);  // and by then, however short the steps are
}  // namespace

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
    : page_(std::move(page)), rank_(rank), plan_(std::move(first)), newest_(plan_.version) {
  if (const Status status = page_->hold(rank); !status) note(status.message());
  follow(plan_);
}

const Plan& Follower::begin(int64_t step) {
  if (const Status status = page_->begin(rank_, step); !status) note(status.message());
  if (page_->shape().vote) return plan_;
  settle(step);
  if (!pending_) look(step);
  return plan_;
}

void Follower::settle(int64_t step) {
  if (!pending_) return;
  agreed_ = agreed_ || page_->agreed(*pending_);
  if (step < pending_->from_step) return;
  if (agreed_)
    follow(std::move(*pending_));
  else
    note("plan " + std::to_string(pending_->version) + " is left out: not every rank saw it in time for step " +
         std::to_string(pending_->from_step));
  pending_.reset();
}

void Follower::follow(Plan plan) {
  plan_ = std::move(plan);
  if (const Status status = page_->follow(rank_, {plan_.version, plan_.from_step}); !status) note(status.message());
}

/// A plan of the page that was not looked at yet and that this job can follow.
std::optional<Plan> Follower::news() {
  Result<Plan> latest = page_->latest();
  if (!latest) {
    if (latest.status().code() != Code::kNotFound)
      note(latest.status().message());
    else if (newest_ > 0)
      note(page_->path() + " has lost its plans: the last one stays in force");
    return {};
  }
  if (latest->version <= newest_) return {};
  if (const Status status = checkPlan(*latest, page_->shape().ranks, page_->shape().total); !status) {
    newest_ = latest->version;
    note(status.message());
    return {};
  }
  return std::move(*latest);
}

void Follower::look(int64_t step) {
  std::optional<Plan> latest = news();
  if (!latest) return;
  newest_ = latest->version;
  if (latest->from_step < step + 1 + page_->shape().ahead)
    return note("plan " + std::to_string(newest_) + " is left out: it came in step " + std::to_string(step) +
                ", too late for step " + std::to_string(latest->from_step));
  if (const Status status = page_->see(rank_, {newest_, step}); !status) return note(status.message());
  pending_ = std::move(*latest);
  agreed_ = false;
}

bool Follower::due(int64_t step) const { return voted_ >= 0 && step >= voted_ + kVoteWait + page_->shape().ahead; }

std::vector<int64_t> Follower::ballot(int64_t step) {
  const JobShape& shape = page_->shape();
  if (!shape.vote || voted_ >= 0 || step % (kVoteEvery + shape.ahead) != 0) return {};
  missAgent(step);
  if (std::optional<Plan> latest = news()) {
    newest_ = latest->version;
    pending_ = std::move(latest);
  }
  voted_ = step;
  const Plan& mine = pending_ ? *pending_ : plan_;
  const int64_t what = PlanPage::digest(mine);
  return {mine.version, -mine.version, what, -what};  // of the negative ones the minimum is the maximum
}

void Follower::counted(int64_t step, const std::vector<int64_t>& least) {
  voted_ = -1;
  if (!pending_ || least.size() != 4 || least[0] != -least[1] || least[2] != -least[3]) return;
  if (least[0] != pending_->version || least[2] != PlanPage::digest(*pending_)) return;
  pending_->from_step = step;
  follow(std::move(*pending_));
  pending_.reset();
}

/// No rank of this node has a lower number.
bool Follower::first() const {
  for (int64_t r = 0; r < rank_; ++r)
    if (const Result<RankWords> words = page_->words(r); words && words->begun > 0) return false;
  return true;
}

void Follower::missAgent(int64_t step) {
  if (step < kAgentSteps || std::chrono::steady_clock::now() - opened_ < kAgentTime) return;
  if (const Result<int64_t> visits = page_->visits(); !visits || *visits > 0 || !first()) return;
  note("no plans reach this node: start `tracesmith cluster agent` on it; until then the batches stay as they are (" +
       page_->path() + ")");
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
