#include "schedule/balancer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/statistics.hpp"

namespace tracesmith::schedule {

namespace {

constexpr int64_t kWalls = 32;       // whole steps that are remembered
constexpr double kWorse = 0.05;      // longer than before by more than this part: the plan was wrong
constexpr int64_t kHoldSteps = 200;  // for which ranks may then not grow
constexpr int64_t kMostQuiet = 64;   // times settle_steps, between plans that go back and forth
constexpr size_t kPlansBefore = 16;  // that can be undone
constexpr double kSpare = 0.1;       // part of a step for which a rank must be idle to have time to spare
constexpr size_t kOutcomes = 1000;
constexpr size_t kNews = 1000;        // that nobody took
constexpr double kImplausible = 1e4;  // times as fast as the median rank

std::string text(const char* format, double a, double b = 0, double c = 0) {
  char out[160];
  std::snprintf(out, sizeof out, format, a, b, c);
  return out;
}

}  // namespace

Balancer::Balancer(const BalancerConfig& config)
    : config_(config),
      limits_(static_cast<size_t>(config.ranks)),
      held_(static_cast<size_t>(config.ranks), 0),
      trackers_(static_cast<size_t>(config.ranks)),
      quiet_steps_(config.settle_steps),
      direction_(static_cast<size_t>(config.ranks), 0),
      unsteady_(static_cast<size_t>(config.ranks), false) {}

Result<Balancer> Balancer::create(const BalancerConfig& c) {
  if (c.ranks < 1 || c.total < c.ranks)
    return Status::invalid(std::to_string(c.total) + " samples cannot be divided among " + std::to_string(c.ranks) +
                           (c.ranks == 1 ? " rank" : " ranks"));
  if (!(c.least_gain >= 0) || !(c.change_cost_s >= 0) || c.horizon_steps < 1 || c.settle_steps < 1 || c.micro_batch < 0)
    return Status::invalid("least_gain and change_cost_s must be 0 or more, horizon_steps and settle_steps 1 or more");
  if (!c.speeds.empty() && static_cast<int64_t>(c.speeds.size()) != c.ranks)
    return Status::invalid(std::to_string(c.speeds.size()) + " speeds for " + std::to_string(c.ranks) + " ranks");
  Balancer balancer(c);
  TS_TRY(balancer.limitsOf(c));
  const bool given = c.policy != Policy::dynamic && !c.speeds.empty();
  Result<std::vector<int64_t>> units = proportionalBatches(
      c.total / balancer.unit_, given ? c.speeds : std::vector<double>(static_cast<size_t>(c.ranks), 1.0), [&] {
        std::vector<BatchLimits> limits = balancer.limits_;
        for (BatchLimits& l : limits) l.most /= balancer.unit_;
        return limits;
      }());
  if (!units) return units.status();
  for (int64_t& n : *units) n *= balancer.unit_;
  balancer.plan_ = balancer.asPlan(*units);
  balancer.plan_.reason =
      given ? "The job begins with batches by the given speeds." : "The job begins with equal batches.";
  return balancer;
}

Status Balancer::limitsOf(const BalancerConfig& c) {
  unit_ = std::max<int64_t>(c.micro_batch, 1);
  if (c.total % unit_ != 0 || c.total / unit_ < c.ranks)
    return Status::invalid("a batch of " + std::to_string(c.total) + " is no whole number of micro-batches of " +
                           std::to_string(unit_) + " for each of " + std::to_string(c.ranks) + " ranks");
  for (size_t r = 0; r < limits_.size(); ++r) {
    const int64_t most = r < c.most_batch.size() ? c.most_batch[r] : 0;
    if (most < 0 || (most > 0 && most < c.micro_batch))
      return Status::invalid("the memory of rank " + std::to_string(r) + " holds " + std::to_string(most) +
                             " samples, less than a micro-batch");
    if (most == 0) continue;
    if (config_.accumulate || config_.micro_batch > 0)
      limits_[r].most_at_once = most;
    else
      limits_[r].most = most;
  }
  return {};
}

Status Balancer::add(int64_t rank, const StepMeasure& m) {
  if (rank < 0 || rank >= config_.ranks)
    return Status::invalid("there is no rank " + std::to_string(rank) + " in a job of " +
                           std::to_string(config_.ranks));
  const auto r = static_cast<size_t>(rank);
  std::vector<double> others;
  for (size_t i = 0; i < trackers_.size(); ++i) {
    if (i != r && trackers_[i].known()) others.push_back(trackers_[i].speed());
  }
  if (const double usual = median(others); static_cast<double>(m.samples) > kImplausible * usual * m.busy_s)
    return Status::invalid("rank " + std::to_string(rank) + " says it is " + std::to_string(std::lround(kImplausible)) +
                           " times as fast as the others: its step " + std::to_string(m.step) + " is left out");
  const int64_t changes = trackers_[r].changes();
  const bool was_slow = trackers_[r].slowSince().has_value();
  if (const Status status = trackers_[r].add(m); !status)
    return Status::invalid("rank " + std::to_string(rank) + ", " + status.message());
  noteSpeed(rank, was_slow, m.step);
  if (trackers_[r].changes() != changes) walls_.clear();  // steps before and after say nothing about a plan
  // The first step under a plan also has what the change itself cost.
  if (m.wall_s > 0 && m.step > since_) {
    walls_.push_back(m.wall_s);
    if (walls_.size() > static_cast<size_t>(kWalls * config_.ranks)) walls_.pop_front();
  }
  return {};
}

void Balancer::noteSpeed(int64_t rank, bool was_slow, int64_t step) {
  const SpeedTracker& t = trackers_[static_cast<size_t>(rank)];
  const auto unsteady = unsteady_.begin() + rank;
  if (!t.unsteady()) *unsteady = false;
  if (t.slowSince().has_value() == was_slow || *unsteady || news_.size() == kNews) return;
  const std::string name = "Rank " + std::to_string(rank);
  if (t.unsteady()) {
    *unsteady = true;
    news_.push_back(name + " becomes slow and fast in turns: plans do not follow it.");
    return;
  }
  if (was_slow)
    news_.push_back(name + " is as fast as usual again, in step " + std::to_string(step) + ".");
  else
    news_.push_back(name + " has been slow since step " + std::to_string(*t.slowSince()) + ": its steps take " +
                    text("%.2g times as long as usual.", t.slowdown()));
}

void Balancer::outOfMemory(int64_t rank, int64_t batch) {
  // Micro-batches of a fixed size cannot become smaller: no plan helps.
  if (rank < 0 || rank >= config_.ranks || batch < 1 || config_.micro_batch > 0) return;
  BatchLimits& limits = limits_[static_cast<size_t>(rank)];
  int64_t& most = config_.accumulate ? limits.most_at_once : limits.most;
  most = std::min(most, std::max<int64_t>(batch - std::max<int64_t>(batch / 8, 1), 1));
}

std::vector<RankCost> Balancer::costs() const {
  std::vector<RankCost> out;
  for (const SpeedTracker& t : trackers_) out.push_back(t.cost());
  return out;
}

std::vector<RankCost> Balancer::costsToPlan() const {
  std::vector<RankCost> out;
  for (size_t r = 0; r < trackers_.size(); ++r) out.push_back(trackers_[r].costToPlan(plan_.ranks[r].weight));
  if (config_.policy != Policy::hybrid || config_.speeds.empty()) return out;
  std::vector<double> scale;  // measured seconds per sample * given speed
  for (size_t r = 0; r < trackers_.size(); ++r) {
    if (std::isfinite(config_.speeds[r]) && config_.speeds[r] > 0 && trackers_[r].known())
      scale.push_back(config_.speeds[r] / trackers_[r].speed());
  }
  if (scale.empty()) return out;
  const double seconds = median(scale);
  for (size_t r = 0; r < out.size(); ++r) {
    if (!std::isfinite(config_.speeds[r]) || config_.speeds[r] <= 0) continue;
    // A rank whose speed changed is not what was given any more.
    if (trackers_[r].changes() > 0) continue;
    const double prior = seconds / config_.speeds[r];
    const double part = kPriorSteps / (kPriorSteps + static_cast<double>(trackers_[r].steps()));
    out[r].per_sample_s += part * (prior - out[r].per_sample_s);
    out[r].fixed_s *= 1 - part;
  }
  return out;
}

bool Balancer::measured() const {
  for (size_t r = 0; r < trackers_.size(); ++r) {
    const SpeedTracker& t = trackers_[r];
    if (!t.known() || t.samples() != plan_.ranks[r].batch || t.stepsAtBatch() < config_.settle_steps) return false;
  }
  return true;
}

bool Balancer::tooLarge() const {
  for (size_t r = 0; r < limits_.size(); ++r) {
    const RankPlan& p = plan_.ranks[r];
    const int64_t at_once = (p.batch + p.micro_batches - 1) / p.micro_batches;
    if (p.batch > limits_[r].most || at_once > limits_[r].most_at_once) return true;
  }
  return false;
}

Result<std::vector<int64_t>> Balancer::target() const {
  std::vector<BatchLimits> limits = limits_;
  std::vector<RankCost> unit_costs = costsToPlan();
  std::vector<double> weights;
  for (size_t r = 0; r < limits.size(); ++r) {
    const int64_t grown = held_[r] > 0 ? held_[r] : plan_.ranks[r].batch * kMostGrowth;
    if (measured()) limits[r].most = std::min(limits[r].most, std::max(grown, unit_));
    limits[r].most /= unit_;
    if (config_.micro_batch > 0) limits[r].most_at_once = BatchLimits{}.most_at_once;
    unit_costs[r].per_sample_s *= static_cast<double>(unit_);
    weights.push_back(config_.speeds.empty() ? trackers_[r].speed() : config_.speeds[r]);
  }
  // Without measurements, which an early lack of memory may not wait for, all ranks are alike.
  Result<std::vector<int64_t>> units = config_.policy == Policy::proportional || !measured()
                                           ? proportionalBatches(config_.total / unit_, weights, limits)
                                           : fastestBatches(config_.total / unit_, unit_costs, limits);
  if (!units) return units.status();
  for (int64_t& n : *units) n *= unit_;
  return units;
}

Plan Balancer::asPlan(const std::vector<int64_t>& batches) const {
  std::vector<int64_t> micro;
  for (size_t r = 0; r < batches.size(); ++r)
    micro.push_back(config_.micro_batch > 0 ? batches[r] / config_.micro_batch : microBatches(batches[r], limits_[r]));
  return planOf(batches, micro);
}

Result<std::optional<Plan>> Balancer::propose(int64_t step) {
  if (proposed_) return std::optional<Plan>();
  const bool must = tooLarge();
  if (!must) {
    if (!measured()) return std::optional<Plan>();
    if (!judged()) return std::optional<Plan>();
    if (gotWorse()) {
      const double real = outcomes_.back().real_gain, predicted = plan_.gain();
      return std::optional<Plan>(
          goBack(step, text("Steps became %.0f %% longer instead of %.0f %% shorter: back to the plan before.",
                            -100 * real, 100 * predicted)));
    }
    if (step < since_ + quiet_steps_) return std::optional<Plan>();
  }
  if (step >= held_until_) std::fill(held_.begin(), held_.end(), 0);
  const Result<std::vector<int64_t>> batches = target();
  if (!batches) return batches.status();
  Plan plan = asPlan(*batches);
  if (plan.batches() == (config_.dry_run ? told_ : plan_.batches()) && !must) return std::optional<Plan>();
  if (measured()) {
    const std::vector<RankCost> now = costs();
    plan.before_s = stepTime(plan_.batches(), now, limits_);
    plan.after_s = stepTime(plan.batches(), now, limits_);
    plan.reason = reasonFor(plan, now);
    prioritise(plan, now);
  }
  if (must)
    plan.reason = "Memory of a rank did not suffice for its batch, which becomes smaller.";
  else if (!pays(plan))
    return std::optional<Plan>();
  return std::optional<Plan>(proposal(std::move(plan)));
}

void Balancer::prioritise(Plan& plan, const std::vector<RankCost>& costs) const {
  for (size_t r = 0; r < costs.size(); ++r) {
    RankPlan& p = plan.ranks[r];
    p.priority = costs[r].time(p.batch, p.micro_batches) >= (1 - kSpare) * plan.after_s ? 1 : 0;
  }
}

Plan Balancer::proposal(Plan plan) {
  plan.version = newest_ + 1;
  told_ = plan.batches();
  if (config_.dry_run) return plan;
  newest_ = plan.version;
  proposed_ = plan;
  return plan;
}

bool Balancer::pays(const Plan& plan) const {
  const double saved = plan.before_s - plan.after_s;
  return plan.gain() >= config_.least_gain &&
         saved * static_cast<double>(config_.horizon_steps) > config_.change_cost_s;
}

bool Balancer::judged() const {
  return wall_before_ <= 0 || static_cast<int64_t>(walls_.size()) >= config_.settle_steps * config_.ranks;
}

bool Balancer::gotWorse() {
  if (wall_before_ <= 0) return false;
  const double real = 1 - median(std::vector<double>(walls_.begin(), walls_.end())) / wall_before_;
  wall_before_ = 0;
  if (outcomes_.size() == kOutcomes) outcomes_.erase(outcomes_.begin());
  outcomes_.push_back({plan_.version, plan_.gain(), real});
  for (const SpeedTracker& t : trackers_) {
    if (t.lastChange() >= since_) return false;  // not the plan's doing
  }
  return real < -std::max(kWorse, config_.least_gain) && !before_.empty() && plan_.gain() > 0;
}

Plan Balancer::goBack(int64_t step, std::string reason) {
  Plan back = before_.back();
  for (size_t r = 0; r < held_.size(); ++r) {
    if (plan_.ranks[r].batch > back.ranks[r].batch) held_[r] = back.ranks[r].batch;
  }
  held_until_ = step + kHoldSteps;
  back.before_s = back.after_s = 0;
  back.reason = std::move(reason);
  return proposal(std::move(back));
}

void Balancer::inForce(const Plan& plan, int64_t step) {
  noteDirection(plan);
  wall_before_ = walls_.empty() ? 0 : median(std::vector<double>(walls_.begin(), walls_.end()));
  walls_.clear();
  before_.push_back(plan_);
  if (before_.size() > kPlansBefore) before_.erase(before_.begin());
  plan_ = plan;
  since_ = step;
  proposed_.reset();
}

void Balancer::noteDirection(const Plan& next) {
  bool back = false;
  for (size_t r = 0; r < direction_.size(); ++r) {
    const int64_t by = next.ranks[r].batch - plan_.ranks[r].batch;
    if (std::abs(by) * 10 < plan_.ranks[r].batch) continue;  // a correction
    const int now = by > 0 ? 1 : -1;
    back = back || now == -direction_[r];
    direction_[r] = now;
  }
  quiet_steps_ = back ? std::min(2 * quiet_steps_, kMostQuiet * config_.settle_steps)
                      : std::max(quiet_steps_ / 2, config_.settle_steps);
}

void Balancer::leftOut() { proposed_.reset(); }

Result<Plan> Balancer::undo(int64_t step) {
  if (before_.empty()) return Status::notFound("there is no plan before this one");
  if (proposed_) return Status::busy("another plan is about to begin: try again in a few steps");
  return goBack(step, "The plan before was asked for.");
}

void Balancer::resume(const Plan& plan, int64_t step, int64_t newest) {
  plan_ = plan;
  since_ = step;
  newest_ = newest;
}

void Balancer::noteVersion(int64_t version) { newest_ = std::max(newest_, version); }

void Balancer::setDryRun(bool dry_run) {
  config_.dry_run = dry_run;
  told_.clear();
}

std::string Balancer::reasonFor(const Plan& plan, const std::vector<RankCost>& now) const {
  size_t slowest = 0, fastest = 0;
  auto time = [&](size_t r) { return now[r].time(plan_.ranks[r].batch, plan_.ranks[r].micro_batches); };
  for (size_t r = 1; r < now.size(); ++r) {
    if (time(r) > time(slowest)) slowest = r;
    if (time(r) < time(fastest)) fastest = r;
  }
  return "Rank " + std::to_string(slowest) + text(" needs %.3g s for its batch and rank ", time(slowest)) +
         std::to_string(fastest) +
         text(" %.3g s: with other batches a step takes %.3g s", time(fastest), plan.after_s) +
         text(" instead of %.3g s (%.0f %% less).", plan.before_s, 100 * plan.gain());
}

}  // namespace tracesmith::schedule
