#include "schedule/coordinator.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tracesmith::schedule {

namespace {
constexpr int64_t kLead = 2;  // steps that ranks have to see a plan, in addition to those that they are ahead

std::string percent(double part) { return std::to_string(std::lround(100 * part)) + " %"; }
}  // namespace

Coordinator::Coordinator(std::unique_ptr<PlanPage> page, Balancer balancer, const BalancerConfig& config)
    : page_(std::move(page)),
      balancer_(std::move(balancer)),
      dry_run_(config.dry_run),
      read_(static_cast<size_t>(config.ranks), 0),
      memory_(static_cast<size_t>(config.ranks), 0),
      doubted_(static_cast<size_t>(config.ranks), false) {}

Result<std::unique_ptr<Coordinator>> Coordinator::start(const std::string& path, BalancerConfig config) {
  Result<std::unique_ptr<PlanPage>> page = PlanPage::open(path);
  if (!page) return page.status();
  TS_TRY((*page)->lockCoordinator());
  config.ranks = (*page)->shape().ranks;
  config.total = (*page)->shape().total;
  Result<Balancer> balancer = Balancer::create(config);
  if (!balancer) return balancer.status();
  std::unique_ptr<Coordinator> made(new Coordinator(std::move(*page), std::move(*balancer), config));
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
    Plan first = balancer_.plan();
    first.version = kFirstVersion;
    TS_TRY(page_->publish(first));
    balancer_.resume(first, 0, first.version);
    return {};
  }
  Plan plan = uniformPlan(shape.total, shape.ranks);  // what ranks have without one
  if (newest && page_->agreed(*newest))
    plan = *newest;
  else if (newest)
    if (Result<Plan> before = page_->plan(newest->version - 1); before && page_->agreed(*before)) plan = *before;
  balancer_.resume(plan, std::max(begun, plan.from_step), newest ? newest->version : 0);
  if (newest && newest->version != plan.version && begun <= newest->from_step) published_ = *newest;
  return {};
}

Status Coordinator::collect() {
  for (int64_t r = 0; r < page_->shape().ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    const Result<RankWords> words = page_->words(r);
    if (!words) return words.status();
    begun_ = std::max(begun_, words->begun);
    if (words->out_of_memory != memory_[i]) {
      memory_[i] = words->out_of_memory;
      balancer_.outOfMemory(r, memory_[i]);
      said_.push_back("Memory of rank " + std::to_string(r) + " does not suffice for " + std::to_string(memory_[i]) +
                      " samples at once: it gets fewer from now on.");
    }
    if (words->reports == read_[i]) continue;
    const Result<std::vector<StepMeasure>> reports = page_->reports(r, read_[i]);
    if (!reports) return reports.status();
    read_[i] = words->reports;
    for (const StepMeasure& m : *reports) {
      const Status status = balancer_.add(r, m);
      if (status.ok() || doubted_[i]) continue;
      doubted_[i] = true;
      said_.push_back("Left out: " + status.message() + ".");
    }
  }
  return {};
}

void Coordinator::settle() {
  if (!published_ || begun_ <= published_->from_step) return;
  if (page_->agreed(*published_)) {
    said_.push_back("Plan " + std::to_string(published_->version) + " is in force from step " +
                    std::to_string(published_->from_step) + ".");
    balancer_.inForce(*published_, published_->from_step);
  } else {
    said_.push_back("Plan " + std::to_string(published_->version) + " is left out: not every rank saw it in time.");
    balancer_.leftOut();
  }
  published_.reset();
}

Result<std::vector<std::string>> Coordinator::turn() {
  TS_TRY(collect());
  for (std::string& line : balancer_.takeNews()) said_.push_back(std::move(line));
  settle();
  if (published_) return std::exchange(said_, {});
  const Result<std::optional<Plan>> plan = balancer_.propose(begun_);
  if (!plan && plan.status().message() != refused_) {
    refused_ = plan.status().message();
    said_.push_back("No plan: " + refused_ + ".");
  }
  if (const auto& all = balancer_.outcomes(); !all.empty() && all.back().version > outcome_) {
    const PlanOutcome& o = all.back();
    outcome_ = o.version;
    said_.push_back("Plan " + std::to_string(o.version) + ": steps are " + percent(std::abs(o.real_gain)) +
                    (o.real_gain < 0 ? " longer" : " shorter") + "; predicted were " + percent(o.predicted_gain) + ".");
  }
  if (plan && *plan) TS_TRY(publish(**plan));
  return std::exchange(said_, {});
}

Status Coordinator::publish(Plan plan) {
  plan.from_step = begun_ + page_->shape().ahead + kLead;
  if (dry_run_) {
    said_.push_back("Dry run: " + plan.reason);
    return {};
  }
  TS_TRY(page_->publish(plan));
  said_.push_back("Plan " + std::to_string(plan.version) + " for step " + std::to_string(plan.from_step) + ": " +
                  plan.reason);
  published_ = std::move(plan);
  return {};
}

Status Coordinator::undo() {
  TS_TRY(collect());
  settle();
  if (published_) return Status::busy("another plan is about to begin: try again in a few steps");
  const Result<Plan> plan = balancer_.undo(begun_);
  return plan ? publish(*plan) : plan.status();
}

}  // namespace tracesmith::schedule
