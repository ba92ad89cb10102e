#include "schedule/terms.hpp"

#include <cmath>

#include "model/travel_lines.hpp"

namespace tracesmith::schedule {

namespace {

std::optional<double> known(double seconds) { return seconds > 0 ? std::optional(seconds) : std::nullopt; }

double secondsOf(const std::optional<double>& seconds) {
  return seconds && std::isfinite(*seconds) && *seconds > 0 ? *seconds : 0;
}

}  // namespace

model::JobTerms termsOf(const std::string& job, model::Coordination coordination, int64_t ahead,
                        const BalancerConfig& c) {
  model::JobTerms t;
  t.job = job;
  t.coordination = coordination;
  t.ranks = c.ranks;
  t.total = c.total;
  t.ahead = ahead;
  t.policy = c.policy;
  t.accumulate = c.accumulate;
  t.micro_batch = c.micro_batch;
  t.least_gain = c.least_gain;
  t.change_cost_s = c.change_cost_s;
  t.horizon_steps = c.horizon_steps;
  t.settle_steps = c.settle_steps;
  t.dry_run = c.dry_run;
  t.speeds = c.speeds;
  for (double& speed : t.speeds)
    if (!std::isfinite(speed)) speed = 0;  // as good as not known, and equal to itself
  t.most_batches = c.most_batch;
  return t;
}

BalancerConfig configOf(const model::JobTerms& t) {
  BalancerConfig c;
  c.ranks = t.ranks;
  c.total = t.total;
  c.policy = t.policy;
  c.speeds = t.speeds;
  c.most_batch = t.most_batches;
  c.accumulate = t.accumulate;
  c.micro_batch = t.micro_batch;
  c.least_gain = t.least_gain;
  c.change_cost_s = t.change_cost_s;
  c.horizon_steps = t.horizon_steps;
  c.settle_steps = t.settle_steps;
  c.dry_run = t.dry_run;
  return c;
}

Result<model::JobTerms> termsOf(const PlanPage& page) {
  model::JobTerms terms;
  model::fromLines(page.terms(), terms);
  const JobShape& s = page.shape();
  const bool vote = terms.coordination == model::Coordination::master;
  if (terms.job.empty() || terms.ranks != s.ranks || terms.total != s.total || terms.ahead != s.ahead || vote != s.vote)
    return Status::corrupt(page.path() + " does not say which job it is of");
  return terms;
}

Result<std::unique_ptr<PlanPage>> createPage(const std::string& path, const model::JobTerms& t) {
  const bool vote = t.coordination == model::Coordination::master;
  return PlanPage::create(path, {t.ranks, t.total, t.ahead, vote}, model::toLines(t));
}

model::JobPlan toTravel(const Plan& plan, bool agreed) {
  model::JobPlan out;
  out.version = plan.version;
  if (agreed) out.from_step = plan.from_step;
  out.before_s = known(plan.before_s);
  out.after_s = known(plan.after_s);
  out.reason = plan.reason;
  for (const RankPlan& r : plan.ranks) out.ranks.push_back({r.batch, r.micro_batches, r.weight, r.layers, r.priority});
  return out;
}

Result<Plan> fromTravel(const model::JobPlan& plan, int64_t ranks, int64_t total) {
  Plan out;
  out.version = plan.version;
  out.from_step = plan.from_step.value_or(0);
  out.before_s = secondsOf(plan.before_s);
  out.after_s = secondsOf(plan.after_s);
  out.reason = plan.reason;
  for (const model::RankShare& r : plan.ranks)
    out.ranks.push_back({r.batch, r.micro_batches, r.weight, r.layers, r.priority});
  if (out.version < 0 || out.version > PlanPage::kMostVersion || out.from_step < 0)
    return Status::invalid("there is no plan " + std::to_string(out.version));
  TS_TRY(checkPlan(out, ranks, total));
  return out;
}

}  // namespace tracesmith::schedule
