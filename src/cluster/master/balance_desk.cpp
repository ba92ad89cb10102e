#include "cluster/master/balance_desk.hpp"

#include <algorithm>

namespace tracesmith::cluster {

Result<BalanceDesk::Job*> BalanceDesk::find(const std::string& id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return Status::notFound("no job " + id.substr(0, 64) + " is being balanced");
  return it->second.get();
}

Result<BalanceDesk::Job*> BalanceDesk::findOrMake(const JobTerms& terms) {
  if (const auto it = jobs_.find(terms.job); it != jobs_.end()) return it->second.get();
  int64_t ranks = terms.ranks;
  for (const auto& [id, job] : jobs_) ranks += job->terms().ranks;
  if (jobs_.size() >= kMostJobs || ranks > kMostRanks) {
    const auto silent = std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) {
      return a.second->heardNs() < b.second->heardNs();
    });
    if (silent == jobs_.end() || now_() - silent->second->heardNs() < kSilentNs)
      return Status::busy("too many jobs are being balanced (limit " + std::to_string(kMostJobs) + ", " +
                          std::to_string(kMostRanks) + " ranks): try again later");
    jobs_.erase(silent);
    return findOrMake(terms);
  }
  Result<std::unique_ptr<Job>> job = Job::create(terms, now_());
  if (!job) return job.status();
  return (jobs_[terms.job] = std::move(*job)).get();
}

void BalanceDesk::forgetSilent() {
  std::erase_if(jobs_, [now = now_()](const auto& job) { return now - job.second->heardNs() > kForgetNs; });
}

void BalanceDesk::send(const Job& job) {
  for (const std::string& node : job.waiting()) send_(node, {job.terms().job, job.plan()});
}

void BalanceDesk::take(const std::string& node, const JobNews& news) {
  if (news.terms.job.empty() || news.terms.coordination == Coordination::workers) return;
  std::lock_guard lock(mutex_);
  const Result<Job*> job = findOrMake(news.terms);
  if (job && (*job)->take(node, news, now_())) send(**job);
}

Result<std::vector<WorkerPlan>> BalanceDesk::work(const std::vector<WorkerStep>& steps) {
  std::lock_guard lock(mutex_);
  forgetSilent();
  std::vector<WorkerPlan> answers;
  for (const WorkerStep& s : steps) {
    if (s.ranks > kMostWorkers)
      return Status::invalid("a job that reports over HTTP has at most " + std::to_string(kMostWorkers) + " ranks");
    schedule::BalancerConfig config;
    config.ranks = s.ranks;
    config.total = s.total;
    const Result<Job*> job = findOrMake(schedule::termsOf(s.job, Coordination::workers, s.ahead, config));
    if (!job) return job.status();
    Result<WorkerPlan> answer = (*job)->work(s, now_());
    if (!answer) return answer.status();
    answers.push_back(std::move(*answer));
  }
  return answers;
}

Status BalanceDesk::undo(const std::string& id) {
  std::lock_guard lock(mutex_);
  const Result<Job*> job = find(id);
  if (!job) return job.status();
  TS_TRY((*job)->undo(now_()));
  send(**job);
  return {};
}

Status BalanceDesk::setDryRun(const std::string& id, bool dry_run) {
  std::lock_guard lock(mutex_);
  const Result<Job*> job = find(id);
  return job ? (*job)->setDryRun(dry_run, now_()) : job.status();
}

BalanceStatus BalanceDesk::status() {
  std::lock_guard lock(mutex_);
  forgetSilent();
  BalanceStatus out;
  out.now_ns = now_();
  for (const auto& [id, job] : jobs_) out.jobs.push_back(job->state(out.now_ns));
  std::sort(out.jobs.begin(), out.jobs.end(),
            [](const BalancedJob& a, const BalancedJob& b) { return a.silent_s < b.silent_s; });
  return out;
}

}  // namespace tracesmith::cluster
