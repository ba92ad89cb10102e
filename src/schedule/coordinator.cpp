#include "schedule/coordinator.hpp"

#include <algorithm>
#include <utility>

namespace tracesmith::schedule {

namespace {
constexpr int64_t kLead = 2;  // steps that ranks have to see a plan, in addition to those that they are ahead
}  // namespace

Coordinator::Coordinator(std::unique_ptr<PlanPage> page, JobBalance balance, const BalancerConfig& config)
    : page_(std::move(page)),
      balance_(std::move(balance)),
      dry_run_(config.dry_run),
      read_(static_cast<size_t>(config.ranks), 0) {}

Result<std::unique_ptr<Coordinator>> Coordinator::start(const std::string& path, BalancerConfig config) {
  Result<std::unique_ptr<PlanPage>> page = PlanPage::open(path);
  if (!page) return page.status();
  if ((*page)->shape().vote)
    return Status::invalid("the ranks of " + path + " are on several nodes: a cluster's master coordinates them");
  TS_TRY((*page)->lockCoordinator());
  config.ranks = (*page)->shape().ranks;
  config.total = (*page)->shape().total;
  Result<JobBalance> balance = JobBalance::create(config);
  if (!balance) return balance.status();
  std::unique_ptr<Coordinator> made(new Coordinator(std::move(*page), std::move(*balance), config));
  TS_TRY(made->goOn());
  return made;
}

Status Coordinator::goOn() {
  const JobShape& shape = page_->shape();
  int64_t begun = 0;
  for (int64_t r = 0; r < shape.ranks; ++r) {
    const Result<RankWords> words = page_->words(r);
    if (!words) return words.status();
    begun = std::max(begun, words->begun);
  }
  const Result<Plan> newest = page_->latest();
  if (!newest && newest.status().code() != Code::kNotFound) return newest.status();
  if (!newest && begun == 0 && !dry_run_) {
    Plan first = balancer().plan();
    first.version = kFirstVersion;
    TS_TRY(page_->publish(first));
    balance_.resume(first, 0, first.version);
    return {};
  }
  Plan plan = uniformPlan(shape.total, shape.ranks);  // what ranks have without one
  if (newest && page_->agreed(*newest))
    plan = *newest;
  else if (newest)
    if (Result<Plan> before = page_->plan(newest->version - 1); before && page_->agreed(*before)) plan = *before;
  balance_.resume(plan, std::max(begun, plan.from_step), newest ? newest->version : 0);
  if (newest && newest->version != plan.version && begun <= newest->from_step) balance_.published(*newest, true);
  return {};
}

Status Coordinator::collect() {
  for (int64_t r = 0; r < page_->shape().ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    const Result<RankWords> words = page_->words(r);
    if (!words) return words.status();
    begun_ = std::max(begun_, words->begun);
    balance_.outOfMemory(r, words->out_of_memory);
    if (words->reports == read_[i]) continue;
    const Result<std::vector<StepMeasure>> reports = page_->reports(r, read_[i]);
    if (!reports) return reports.status();
    read_[i] = words->reports;
    for (const StepMeasure& m : *reports) (void)balance_.add(r, m);  // it says what it leaves out
  }
  return {};
}

void Coordinator::settle() {
  const std::optional<Plan>& next = balance_.next();
  if (!next || begun_ <= next->from_step) return;
  if (page_->agreed(*next))
    balance_.inForce(next->from_step);
  else
    balance_.leftOut();
}

Result<std::vector<std::string>> Coordinator::turn() {
  TS_TRY(collect());
  settle();
  if (std::optional<Plan> plan = balance_.propose(begun_)) TS_TRY(publish(std::move(*plan)));
  return balance_.takeSaid();
}

Status Coordinator::publish(Plan plan) {
  plan.from_step = begun_ + page_->shape().ahead + kLead;
  if (dry_run_) {
    balance_.dryRun(plan);
    return {};
  }
  TS_TRY(page_->publish(plan));
  balance_.published(std::move(plan), true);
  return {};
}

Status Coordinator::undo() {
  TS_TRY(collect());
  settle();
  Result<Plan> plan = balance_.undo(begun_);
  return plan ? publish(std::move(*plan)) : plan.status();
}

}  // namespace tracesmith::schedule
