#include "schedule/cluster_job.hpp"

#include <algorithm>
#include <cmath>

namespace tracesmith::schedule {

namespace {

using model::Coordination;

constexpr int64_t kLead = 2;  // steps that workers have to hear of a plan, in addition to those that they are ahead
constexpr size_t kNotes = 256, kRates = 512;
constexpr int64_t kSilentNs = 30'000'000'000;
constexpr int64_t kMostStep = int64_t{1} << 39;

/// The same job, whether its plans are followed or only told.
bool alike(model::JobTerms a, const model::JobTerms& b) {
  a.dry_run = b.dry_run;
  return a == b;
}

const Plan* find(const std::vector<Plan>& plans, int64_t version) {
  for (const Plan& p : plans)
    if (p.version == version) return &p;
  return nullptr;
}

}  // namespace

ClusterJob::ClusterJob(const model::JobTerms& terms, JobBalance balance, int64_t now_ns)
    : terms_(terms), balance_(std::move(balance)), ranks_(static_cast<size_t>(terms.ranks)), heard_ns_(now_ns) {}

Result<std::unique_ptr<ClusterJob>> ClusterJob::create(const model::JobTerms& terms, int64_t now_ns) {
  if (terms.ranks < 1 || terms.ranks > PlanPage::kMostRanks)
    return Status::invalid("a job has 1 to " + std::to_string(PlanPage::kMostRanks) + " ranks");
  BalancerConfig config = configOf(terms);
  if (terms.coordination == Coordination::rank) config.dry_run = true;  // it only watches
  Result<JobBalance> balance = JobBalance::create(config);
  if (!balance) return balance.status();
  std::unique_ptr<ClusterJob> job(new ClusterJob(terms, std::move(*balance), now_ns));
  if (terms.coordination == Coordination::workers) {
    Plan first = job->balance_.balancer().plan();
    job->balance_.resume(first, 0, first.version);
    job->resumed_ = true;
  }
  return job;
}

bool ClusterJob::complete() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.known; });
}

Status ClusterJob::take(const std::string& node, const model::JobNews& news, int64_t now_ns) {
  if (terms_.coordination == Coordination::workers || !alike(news.terms, terms_))
    return Status::invalid("node " + node + " tells of another job with the id " + terms_.job);
  std::vector<Plan> plans;
  for (const model::JobPlan& p : news.plans)
    if (Result<Plan> plan = fromTravel(p, terms_.ranks, terms_.total)) plans.push_back(std::move(*plan));
  const int64_t begun = begun_;
  nodes_[node].heard_ns = now_ns;
  takePlans(node, plans, news.ranks);
  for (const model::RankNews& rank : news.ranks) takeRank(node, rank, plans);
  if (resumed_ && terms_.coordination == Coordination::rank && balance_.next() &&
      begun_ > balance_.next()->from_step + terms_.ahead + 1)
    balance_.leftOut();  // no rank follows it
  if (begun_ > begun) heard_ns_ = now_ns;
  turn(now_ns);
  return {};
}

/// What a page has: the plan in force, and one that may be on its way. A master that has just started learns both.
void ClusterJob::takePlans(const std::string& node, const std::vector<Plan>& plans,
                           const std::vector<model::RankNews>& ranks) {
  int64_t& newest = nodes_[node].newest;
  for (const Plan& p : plans) {
    newest = std::max(newest, p.version);
    balance_.balancer().noteVersion(p.version);
  }
  if (!resumed_) {
    int64_t version = -1, from_step = 0, begun = 0;
    for (const model::RankNews& r : ranks) {
      if (r.version > version) version = r.version, from_step = r.from_step;
      begun = std::max(begun, std::min(r.begun, kMostStep));
    }
    const Plan* there = find(plans, version);
    if (version != 0 && !there) return;
    Plan plan = there ? *there : uniformPlan(terms_.total, terms_.ranks);
    plan.from_step = from_step;
    balance_.resume(plan, std::max(begun, from_step), std::max(version, newest));
    resumed_ = true;
  }
  const Plan* latest = find(plans, newest);
  if (!latest || newest <= balance_.balancer().plan().version) return;
  if (balance_.next() && balance_.next()->version < newest) balance_.leftOut();
  if (!balance_.next()) balance_.published(*latest, terms_.coordination == Coordination::rank);
}

void ClusterJob::takeRank(const std::string& node, const model::RankNews& news, const std::vector<Plan>& plans) {
  if (news.rank < 0 || news.rank >= terms_.ranks || news.begun < 1 || news.begun > kMostStep) return;
  Rank& rank = ranks_[static_cast<size_t>(news.rank)];
  if (rank.known && rank.node != node) {
    // A rank is on one node, whose agent may have got another name.
    if (nodes_[node].heard_ns - nodes_[rank.node].heard_ns < kSilentNs) return;
    rank.read = 0;
  }
  rank.node = node;
  rank.known = true;
  rank.begun = std::max(rank.begun, news.begun);
  begun_ = std::max(begun_, rank.begun);
  if (resumed_ && news.version > balance_.balancer().plan().version) adopt(news.version, news.from_step, plans);
  balance_.outOfMemory(news.rank, news.out_of_memory.value_or(0));
  int64_t number = std::max<int64_t>(news.first, 0);
  for (const model::StepNews& s : news.steps) {
    if (number++ < rank.read || s.step > kMostStep) continue;
    rank.read = number;
    const StepMeasure measure{s.step, s.samples, s.busy_s, s.wall_s};
    if (balance_.add(news.rank, measure).ok() && news.rank == 0) rate(measure);
  }
}

/// The ranks follow a plan since that step: they have agreed on it.
void ClusterJob::adopt(int64_t version, int64_t from_step, const std::vector<Plan>& plans) {
  if (from_step < 0 || from_step > kMostStep) return;
  if (!balance_.next() || balance_.next()->version != version) {
    const Plan* plan = find(plans, version);
    if (!plan) return;
    balance_.leftOut();
    balance_.published(*plan, false);
  }
  balance_.inForce(from_step);
}

void ClusterJob::rate(const StepMeasure& m) {
  // The last step of an epoch may have fewer samples, and a step of the plan before does not count for this one.
  if (m.samples != balance_.balancer().plan().ranks[0].batch) return;
  if (m.wall_s <= 0 || m.step % rate_every_ != 0 || (!rates_.empty() && m.step <= rates_.back().step)) return;
  rates_.push_back({m.step, static_cast<double>(terms_.total) / m.wall_s, balance_.balancer().plan().version});
  if (rates_.size() <= kRates) return;
  rate_every_ *= 2;
  std::erase_if(rates_, [&](const model::JobRate& r) { return r.step % rate_every_ != 0; });
}

void ClusterJob::turn(int64_t now_ns) {
  if (resumed_ && complete()) {
    std::optional<Plan> plan = balance_.propose(begun_);
    if (plan && terms_.coordination != Coordination::rank) put(std::move(*plan));
  }
  keepSaid(now_ns);
}

void ClusterJob::put(Plan plan) {
  if (terms_.dry_run) return balance_.dryRun(plan);
  const bool workers = terms_.coordination == Coordination::workers;
  plan.from_step = workers ? begun_ + terms_.ahead + kLead : 0;
  balance_.published(std::move(plan), workers);
}

void ClusterJob::keepSaid(int64_t now_ns) {
  for (std::string& text : balance_.takeSaid()) notes_.push_back({now_ns, std::move(text)});
  while (notes_.size() > kNotes) notes_.pop_front();
}

std::vector<std::string> ClusterJob::waiting() const {
  std::vector<std::string> out;
  if (terms_.coordination != Coordination::master || !balance_.next()) return out;
  for (const auto& [name, node] : nodes_)
    if (node.newest < balance_.next()->version) out.push_back(name);
  return out;
}

Status ClusterJob::undo(int64_t now_ns) {
  if (terms_.coordination == Coordination::rank)
    return Status::invalid("rank 0 of job " + terms_.job + " makes its plans: call sampler.undo() there");
  if (terms_.dry_run) return Status::invalid("job " + terms_.job + " is a dry run: it follows no plans");
  Result<Plan> plan = balance_.undo(begun_);
  if (!plan) return plan.status();
  put(std::move(*plan));
  keepSaid(now_ns);
  return {};
}

Status ClusterJob::setDryRun(bool dry_run, int64_t now_ns) {
  if (terms_.coordination == Coordination::rank)
    return Status::invalid("rank 0 of job " + terms_.job + " makes its plans: pass dry_run to its sampler");
  if (terms_.dry_run == dry_run) return {};
  terms_.dry_run = dry_run;
  balance_.balancer().setDryRun(dry_run);
  notes_.push_back({now_ns, dry_run ? "From now on plans are only told." : "From now on plans are followed."});
  return {};
}

model::WorkerPlan ClusterJob::answerTo(const model::WorkerStep& step) const {
  const auto share = [&](const Plan& plan) {
    const RankPlan& r = plan.ranks[static_cast<size_t>(step.rank)];
    return model::WorkerShare{plan.version, plan.from_step, r.batch, r.weight, r.micro_batches};
  };
  model::WorkerPlan answer{share(balance_.balancer().plan()), step.job, step.rank, {}, {}};
  if (balance_.next()) answer.next = share(*balance_.next());
  return answer;
}

Result<model::WorkerPlan> ClusterJob::work(const model::WorkerStep& s, int64_t now_ns) {
  if (terms_.coordination != Coordination::workers)
    return Status::invalid("job " + terms_.job + " is balanced through the pages of its nodes, not over HTTP");
  if (s.ranks != terms_.ranks || s.total != terms_.total || s.ahead != terms_.ahead)
    return Status::invalid("job " + terms_.job + " has " + std::to_string(terms_.ranks) + " ranks, " +
                           std::to_string(terms_.total) + " samples in a step and fetches " +
                           std::to_string(terms_.ahead) + " ahead; another job needs another name");
  if (s.rank < 0 || s.rank >= terms_.ranks || s.step < 0 || s.step > kMostStep)
    return Status::invalid("job " + terms_.job + " has no step " + std::to_string(s.step) + " of rank " +
                           std::to_string(s.rank));
  Rank& rank = ranks_[static_cast<size_t>(s.rank)];
  if (s.step + 1 < rank.begun)
    return Status::invalid("rank " + std::to_string(s.rank) + " of job " + terms_.job + " was in step " +
                           std::to_string(rank.begun - 1) + " already; a job that begins again needs another name");
  heard_ns_ = now_ns;
  Status counted;
  if (s.step >= rank.begun) {  // else it asks again, because an answer was lost
    rank.known = true;
    rank.begun = s.step + 1;
    begun_ = std::max(begun_, rank.begun);
    const StepMeasure measure{s.step, s.batch, s.busy_s, s.wall_s};
    counted = balance_.add(s.rank, measure);
    if (counted && s.rank == 0) rate(measure);
    if (balance_.next() && begun_ > balance_.next()->from_step) balance_.inForce(balance_.next()->from_step);
    turn(now_ns);
  }
  model::WorkerPlan answer = answerTo(s);
  answer.left_out = counted.message();
  return answer;
}

model::BalancedJob ClusterJob::state(int64_t now_ns) const {
  const Balancer& balancer = balance_.balancer();
  model::BalancedJob out;
  out.terms = terms_;
  if (begun_ > 0) out.step = begun_ - 1;
  out.silent_s = static_cast<double>(std::max<int64_t>(now_ns - heard_ns_, 0)) * 1e-9;
  out.plan = toTravel(balancer.plan(), true);
  if (!balancer.before().empty()) out.before = toTravel(balancer.before().back(), true);
  if (balance_.next()) out.next = toTravel(*balance_.next(), terms_.coordination != Coordination::master);
  out.problem = balance_.problem();
  const auto heard = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.known; });
  if (heard < terms_.ranks)
    out.problem = std::to_string(heard) + " of " + std::to_string(terms_.ranks) +
                  " ranks were heard of: plans are made when all were";
  for (size_t r = 0; r < ranks_.size(); ++r) {
    model::BalancedRank& rank = out.ranks.emplace_back();
    const SpeedTracker& tracker = balancer.speeds()[r];
    rank.rank = static_cast<int64_t>(r);
    rank.node = ranks_[r].node;
    if (ranks_[r].begun > 0) rank.step = ranks_[r].begun - 1;
    rank.changes = tracker.changes();
    if (!tracker.known()) continue;
    rank.samples_per_s = tracker.speed();
    const RankPlan& share = balancer.plan().ranks[r];
    rank.busy_s = tracker.cost().time(share.batch, share.micro_batches);
  }
  for (const PlanOutcome& o : balancer.outcomes()) out.outcomes.push_back({o.version, o.predicted_gain, o.real_gain});
  if (out.outcomes.size() > kNotes) out.outcomes.erase(out.outcomes.begin(), out.outcomes.end() - kNotes);
  out.rates.assign(rates_.begin(), rates_.end());
  out.notes.assign(notes_.begin(), notes_.end());
  return out;
}

}  // namespace tracesmith::schedule
