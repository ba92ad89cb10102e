#include "analysis/live/slow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "base/statistics.hpp"
#include "base/text.hpp"

namespace tracesmith::analysis::live {
namespace {

constexpr int64_t kS = 1'000'000'000;
constexpr int64_t kStepWaitNs = 4 * kS;  // for reports of the slowest to tell
constexpr int64_t kForgetNs = 60 * kS;   // a rank that tells nothing
constexpr int64_t kForgetCostNs = 3600 * kS;
constexpr int64_t kRepeatNs = 60 * kS;  // slow steps are told once in a while
constexpr double kWorse = 2;            // and those by one rank again if it is so much worse
constexpr size_t kLeastSteps = 3;       // in a bucket
constexpr size_t kMostSteps = 100'000, kMostComms = 200'000;

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * part);
  return text;
}

}  // namespace

/// Communicators with a common process are of one job; the smallest hash names it.
uint64_t SlowDetector::rootOf(uint64_t c) {
  while (true) {
    auto it = parents_.try_emplace(c, c).first;
    if (it->second == c) return c;
    c = it->second;
  }
}

uint64_t SlowDetector::jobOf(const ProcessReport& process) {
  if (parents_.size() > kMostComms) parents_.clear();
  uint64_t root = rootOf(process.comms.front().comm);
  for (const CommState& c : process.comms) {
    const uint64_t other = rootOf(c.comm);
    if (other == root) continue;
    parents_[std::max(root, other)] = std::min(root, other);
    std::erase_if(jobs_, [gone = std::max(root, other)](const auto& job) { return job.first.first == gone; });
    root = std::min(root, other);
  }
  return root;
}

void SlowDetector::take(const NodeReport& report, int64_t now_ns) {
  gpus_[report.node] = report.gpus;
  for (const ProcessReport& p : report.processes) {
    if (p.comms.empty() || p.state != ProcessState::running) continue;
    takeSteps(report, p, now_ns);
    takeTransfers(report, p, now_ns);
  }
}

void SlowDetector::takeSteps(const NodeReport& report, const ProcessReport& p, int64_t now_ns) {
  auto [it, fresh] =
      jobs_.try_emplace({jobOf(p), p.role}, Job{{}, {}, 0, -1, {}, 0, ChangeDetector(options_.least_job, true), 0, {}});
  Job& job = it->second;
  if (fresh) job.bucket_start_ns = now_ns;
  const RankKey key{report.node, p.pid};
  auto rank = job.ranks.try_emplace(key, Rank{-1, -1, 0, {}, 0, ChangeDetector(options_.least_rank, false)}).first;
  rank->second.rank = p.rank;
  rank->second.device = p.local_rank;
  rank->second.role = p.role;
  rank->second.seen_ns = now_ns;
  for (const StepTime& s : p.steps) {
    if (s.step <= job.done && job.done - s.step < 1000) continue;  // came too late
    if (s.step <= job.done) job.done = -1;                         // steps are counted from the beginning again
    Step& step = job.steps[s.step];
    if (step.ranks.empty()) step.first_ns = now_ns;
    RankSum& sum = step.ranks[key];
    sum.duration_ns += static_cast<double>(s.duration_ns);
    sum.comm_ns += static_cast<double>(s.comm_ns.value_or(0));
    sum.recorded &= s.comm_ns.has_value();
  }
  while (job.steps.size() > kMostSteps) job.steps.erase(job.steps.begin());
}

void SlowDetector::takeTransfers(const NodeReport& report, const ProcessReport& p, int64_t now_ns) {
  for (const CommState& c : p.comms)
    for (const Transfers& t : c.transfers) {
      if (t.shortest_ns <= 0 || (t.peer >= 0 && c.group_rank < 0)) continue;
      const bool receives = t.peer >= 0 && t.op == "recv";
      LinkKey key{c.comm, t.op, t.bytes};
      if (t.peer >= 0)
        key = {c.comm, "send", t.bytes, receives ? t.peer : c.group_rank, receives ? c.group_rank : t.peer};
      const double least = t.bytes < options_.small_bytes ? options_.least_latency : options_.least_link;
      Link& link =
          links_.try_emplace(std::move(key), Link{"", -1, now_ns, {}, ChangeDetector(least, true)}).first->second;
      link.name = c.name;
      link.size = c.size;
      Link::End& end = link.ends[receives];
      end.rank = p.rank;
      end.node = report.node;
      end.shortest_ns = end.shortest_ns == 0 ? t.shortest_ns : std::min(end.shortest_ns, t.shortest_ns);
    }
}

/// 0: not known yet. Of a send and its receive one may wait for the other: it takes both to know.
int64_t SlowDetector::transferOf(const LinkKey& key, const Link& link) {
  return key.pair() ? std::min(link.ends[0].shortest_ns, link.ends[1].shortest_ns) : link.ends[0].shortest_ns;
}

/// What became slower, and which operation shows it.
std::string SlowDetector::linkText(const LinkKey& key, const Link& link) {
  const std::string comm = (link.name.empty() ? "" : link.name + " ") + "(" + commName(key.comm) + ", " +
                           std::to_string(link.size) + " ranks) became slower: ";
  if (!key.pair()) return "transfers of " + comm + key.op;
  const Link::End &from = link.ends[0], &to = link.ends[1];
  const bool known = from.rank >= 0 && to.rank >= 0;  // else by their places in the communicator
  const auto [a, b] = known ? std::minmax(from.rank, to.rank) : std::minmax(key.from, key.to);
  return "link " + std::to_string(a) + "-" + std::to_string(b) + " of " + comm + "send from " +
         std::to_string(known ? from.rank : key.from) + " on " + from.node + " to " +
         std::to_string(known ? to.rank : key.to) + " on " + to.node;
}

std::string SlowDetector::rankText(const RankKey& key, const Rank& rank) const {
  return (rank.rank >= 0 ? "rank " + std::to_string(rank.rank) : "process " + std::to_string(key.second)) +
         (rank.role.empty() ? "" : " (" + rank.role + ")") + " on " + key.first;
}

/// What the GPU says of itself, where that explains it.
std::string SlowDetector::gpuText(const RankKey& key, const Rank& rank) const {
  auto node = gpus_.find(key.first);
  if (node == gpus_.end()) return {};
  for (const GpuState& gpu : node->second) {
    if (static_cast<int32_t>(gpu.index) != rank.device) continue;
    for (const Metric& m : gpu.metrics) {
      if (m.name != "gpu_throttle_reasons" || !m.value) continue;
      const auto bits = static_cast<uint64_t>(*m.value);
      if (bits & (32 | 64)) return "; its GPU is throttled because of heat";
      if (bits & (4 | 128)) return "; its GPU is throttled because of power";
      if (bits & 8) return "; its GPU is slowed down by the hardware";
    }
  }
  return {};
}

void SlowDetector::finishStep(Job& job, int64_t number, const Step& step, int64_t now_ns, std::vector<Alert>& alerts) {
  std::vector<double> durations, waits;
  bool recorded = true;  // on all ranks: else nobody can be compared
  for (const auto& [key, sum] : step.ranks) {
    durations.push_back(sum.duration_ns);
    waits.push_back(sum.comm_ns);
    recorded &= sum.recorded;
  }
  const double duration = median(durations), wait = median(waits);
  const double least_wait = *std::min_element(waits.begin(), waits.end());
  if (!(duration > 0)) return;
  const RankKey* latest = nullptr;
  double most = 0;
  for (const auto& [key, sum] : step.ranks) {
    auto rank = job.ranks.find(key);
    if (rank == job.ranks.end() || !recorded) continue;
    const double late = wait - sum.comm_ns;
    rank->second.excess.push_back(late / duration);
    RankCost& cost = costs_[key];
    cost.wait_s += (sum.comm_ns - least_wait) * 1e-9;
    cost.late_s += std::max(0.0, late) * 1e-9;
    cost.seen_ns = now_ns;
    if (late > most) {
      most = late;
      latest = &key;
    }
  }
  job.durations.push_back(duration);
  const double longer = duration - job.usual_ns;
  if (job.usual_ns <= 0 || duration < options_.slow_step * job.usual_ns ||
      longer < static_cast<double>(options_.slow_step_ns) || !latest || most < longer / 2 ||
      now_ns < job.quiet_until_ns)
    return;
  Rank& rank = job.ranks.at(*latest);
  if (most < kWorse * rank.told_ns) return;  // as before: it saves checkpoints, say
  rank.told_ns = most;
  job.quiet_until_ns = now_ns + kRepeatNs;
  alerts.push_back(alertOf(now_ns, AlertKind::slow_step,
                           "step " + std::to_string(number) + " took " + humanNs(duration) + " instead of " +
                               humanNs(job.usual_ns) + ": " + rankText(*latest, rank) + " arrived " + humanNs(most) +
                               " late"));
}

void SlowDetector::finishBucket(Job& job, int64_t now_ns, std::vector<Alert>& alerts) {
  const int64_t start = job.bucket_start_ns;
  const double duration = median(job.durations);
  job.usual_ns = duration;
  struct Found {
    const RankKey* key;
    const Rank* rank;
    Change change;
  };
  std::vector<Found> found;
  for (auto& [key, rank] : job.ranks) {
    // Medians: a pause in one step makes nobody slow.
    if (!rank.excess.empty())
      if (std::optional<Change> c = rank.change.add(median(rank.excess), start)) found.push_back({&key, &rank, *c});
    rank.excess.clear();
  }
  // One that is late makes the median of the others move too: only the worst are told.
  double most = 0;
  for (const Found& f : found) most = std::max(most, f.change.after - f.change.before);
  for (const Found& f : found)
    if (f.change.after - f.change.before > most / 2)
      alerts.push_back(alertOf(now_ns, AlertKind::slow_rank,
                               rankText(*f.key, *f.rank) + " became slower: it arrives " +
                                   humanNs((f.change.after - f.change.before) * duration) +
                                   " later than before in each step (" + percent(f.change.after - f.change.before) +
                                   ")" + gpuText(*f.key, *f.rank)));
  // The quicker steps are looked at: pauses of single ranks hold up many steps of a large job, but not all.
  if (std::optional<Change> c = job.change.add(quantile(job.durations, 0.25), start))
    job.slower = alertOf(now_ns, AlertKind::slow_job,
                         "the whole job became slower: a step takes " + humanNs(c->after) + " instead of " +
                             humanNs(c->before) + " (" + percent(c->after / c->before - 1) + ")");
  if (!found.empty()) job.slower.reset();
  job.durations.clear();
  job.bucket_start_ns = now_ns;
}

std::vector<Alert> SlowDetector::look(int64_t now_ns) {
  std::vector<Alert> alerts;
  for (auto& [id, job] : jobs_) {
    std::erase_if(job.ranks, [&](const auto& r) { return now_ns - r.second.seen_ns > kForgetNs; });
    while (!job.steps.empty()) {
      auto first = job.steps.begin();
      const bool all = first->second.ranks.size() >= job.ranks.size();
      if (!all && now_ns - first->second.first_ns < kStepWaitNs) break;
      finishStep(job, first->first, first->second, now_ns, alerts);
      job.done = first->first;
      job.steps.erase(first);
    }
    if (now_ns - job.bucket_start_ns >= options_.bucket_ns && job.durations.size() >= kLeastSteps)
      finishBucket(job, now_ns, alerts);
  }
  std::erase_if(jobs_, [](const auto& job) { return job.second.ranks.empty(); });
  std::erase_if(costs_, [&](const auto& cost) { return now_ns - cost.second.seen_ns > kForgetCostNs; });
  lookAtLinks(now_ns, alerts);
  for (auto& [id, job] : jobs_)
    if (job.slower && now_ns - job.slower->t_ns >= options_.job_wait_ns) {
      alerts.push_back(std::move(*job.slower));
      job.slower.reset();
    }
  return alerts;
}

void SlowDetector::lookAtLinks(int64_t now_ns, std::vector<Alert>& alerts) {
  // Of all sizes and directions between the same ranks only the one that changed most is told.
  using Ends = std::tuple<uint64_t, int32_t, int32_t>;
  std::map<Ends, std::pair<double, Alert>> slow;
  for (auto it = links_.begin(); it != links_.end();) {
    const LinkKey& key = it->first;
    Link& link = it->second;
    const int64_t transfer = transferOf(key, link), age = now_ns - link.bucket_start_ns;
    if (age < options_.bucket_ns || (transfer == 0 && age < kForgetNs)) {
      ++it;
      continue;
    }
    if (transfer == 0) {
      it = links_.erase(it);
      continue;
    }
    if (std::optional<Change> c = link.change.add(static_cast<double>(transfer), link.bucket_start_ns)) {
      const double factor = c->after / c->before;
      auto& worst = slow[{key.comm, std::min(key.from, key.to), std::max(key.from, key.to)}];
      if (factor > worst.first)
        worst = {factor, alertOf(now_ns, AlertKind::slow_link,
                                 linkText(key, link) + " of " +
                                     humanBytes(static_cast<uint64_t>(std::max<int64_t>(0, key.bytes))) + " takes " +
                                     humanNs(c->after) + " instead of " + humanNs(c->before) + " (" +
                                     percent(factor - 1) + ")")};
    }
    for (Link::End& end : link.ends) end.shortest_ns = 0;
    link.bucket_start_ns = now_ns;
    ++it;
  }
  for (auto& [ends, found] : slow) {
    alerts.push_back(std::move(found.second));
    for (auto& [id, job] : jobs_)
      if (id.first == rootOf(std::get<0>(ends))) job.slower.reset();
  }
}

}  // namespace tracesmith::analysis::live
