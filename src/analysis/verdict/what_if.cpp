// What the job would gain: replays of it with one thing changed.
#include <algorithm>
#include <cmath>

#include "analysis/verdict/replay.hpp"

namespace tracesmith::analysis {
namespace {

constexpr double kMostReplayErrorPct = 5;  // a replay that is farther from the job says nothing about it

struct Asked {
  Change change;
  double saved_pct;
  double* hidden_pct;
};
/// The others wait for the slowest alone: the next one costs something only when that is well.
void hiddenCosts(const Replay& replay, double base, const std::vector<Asked>& asked) {
  if (asked.empty()) return;
  const Asked& most = *std::max_element(asked.begin(), asked.end(),
                                        [](const Asked& a, const Asked& b) { return a.saved_pct < b.saved_pct; });
  const double well = replay.run(most.change);
  for (const Asked& a : asked) {
    if (&a == &most || a.saved_pct >= kLeastCostPct) continue;
    Change both = most.change;
    both.work.insert(a.change.work.begin(), a.change.work.end());
    both.late.insert(a.change.late.begin(), a.change.late.end());
    both.own.insert(a.change.own.begin(), a.change.own.end());
    both.pace.insert(a.change.pace.begin(), a.change.pace.end());
    both.transfer.insert(a.change.transfer.begin(), a.change.transfer.end());
    *a.hidden_pct = 100 * (well - replay.run(both)) / base;
  }
}

/// What part of the time in which a rank's host was late is more than that of the others. `excess`: of a step.
double extraLateness(const RankFigures& rank, double excess) {
  double late = 0, time = 0;
  for (const StepFigures& f : rank.steps) {
    late += static_cast<double>(f.host_late_ns);
    time += static_cast<double>(f.end - f.ts);
  }
  return late > 0 ? std::clamp(excess * time / late, 0.0, 1.0) : 0;
}

/// What part of the work that only this rank does is more than the others have. `excess`: of theirs.
double extraWork(const RankFigures& rank, double excess) {
  double own = 0, all = 0;
  for (const StepFigures& f : rank.steps) {
    own += f.own_ns;
    all += static_cast<double>(f.computeNs());
  }
  return own > 0 ? std::clamp(excess / (1 + excess) * all / own, 0.0, 1.0) : 0;
}

/// Whether it is known when the work was done that only this rank does; a summary does not tell.
bool knowsOwnWork(const PartTable& table, int64_t process) {
  auto range = table.of_process.find(process);
  return range != table.of_process.end() &&
         std::any_of(table.parts.begin() + static_cast<ptrdiff_t>(range->second.first),
                     table.parts.begin() + static_cast<ptrdiff_t>(range->second.second),
                     [](const Part& p) { return p.own_ns > 0; });
}

/// By process: how many times as long it would work if all GPUs were done at the same time; `without`: if those of the
/// slowest model did nothing, and the others their part as well.
std::map<int32_t, double> sharedOut(const JobData& job, bool without) {
  const std::vector<int64_t>& slow = job.mixed->slow;
  std::map<int32_t, double> out;  // times of those that work, at first
  double speed = 0;               // of all, in parts of a rank's work per ns
  for (const RankFigures& r : job.ranks) {
    const bool idle = without && std::find(slow.begin(), slow.end(), job.rankOf(r.process)) != slow.end();
    const double time = out[static_cast<int32_t>(r.process)] = idle ? 0 : usualCompute(job, job.models.of(r.process));
    if (time > 0) speed += 1 / time;
  }
  for (auto& [process, time] : out)
    if (time > 0) time = static_cast<double>(job.ranks.size()) / speed / time;
  return out;
}

/// What a replay that is far from the job says of it is not known.
void forget(JobData& job, CriticalPath& path, std::vector<Blame>& blame, std::vector<LinkEvidence>& links) {
  path.what_if.clear();
  for (Blame& b : blame) b.saved_pct = kUnknown;
  for (LinkEvidence& l : links) l.result.saved_pct = kUnknown;
  if (job.mixed) job.mixed->balanced_pct = job.mixed->without_pct = kUnknown;
  job.hidden_ranks.clear();
  job.hidden_links.clear();
}

}  // namespace

std::optional<CriticalPath> whatIf(JobData& job, const std::vector<RankEvidence>& evidence, std::vector<Blame>& blame,
                                   std::vector<LinkEvidence>& links) {
  constexpr size_t kMost = 4;  // of ranks and of links
  const Replay replay(job);
  CriticalPath path = replay.path();
  const double base = replay.run({});
  if (base <= 0) return {};
  const auto job_ns = static_cast<double>(job.end - job.start);
  path.replay_error_pct = 100 * (base / std::max(1.0, job_ns) - 1);
  // The change is that of one replay against another; it is applied to the job as it was measured.
  auto ask = [&](const std::string& what, const Change& change, double most_us = kUnknown) {
    double part = replay.run(change) / base;
    if (!std::isnan(most_us)) part = std::max(part, 1 - 1000 * most_us / std::max(1.0, job_ns));
    WhatIf w{what, job_ns / 1000 * part, job_ns / 1000 * (1 - part), 100 * (1 - part), kUnknown};
    if (job.step_ns > 0) w.step_us = job.step_ns / 1000 * part;
    path.what_if.push_back(w);
    return w.saved_pct;
  };
  const bool pipeline = std::any_of(job.table.instances.begin(), job.table.instances.end(),
                                    [](const Instance& in) { return isPair(in.op); });
  if (job.mixed) {
    MixedDevices& m = *job.mixed;
    const std::string who = ranksText(m.slow) + " (" + m.slow_model + ")";
    Change balanced, without;
    balanced.pace = sharedOut(job, false);
    m.balanced_pct = ask("each rank had work in proportion to the speed of its GPU", balanced);
    without.pace = sharedOut(job, true);
    if (m.slow.size() < job.ranks.size()) m.without_pct = ask("the others did the work of " + who, without);
  }
  std::vector<Asked> asked;
  std::vector<std::pair<Blame*, size_t>> ranks;  // and their place in the job's
  for (Blame& b : blame)
    for (size_t r = 0; r < job.ranks.size() && b.significant; ++r)
      if (job.rankOf(job.ranks[r].process) == b.rank && (evidence[r].together.empty() || evidence[r].together[0] == r))
        ranks.emplace_back(&b, r);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.first->slowdown > b.first->slowdown; });
  if (ranks.size() > kMost) ranks.resize(kMost);
  for (const auto& [b, r] : ranks) {
    const RankEvidence& e = evidence[r];
    const CauseWhatIf without = info(e.cause).what_if;
    const auto process = static_cast<int32_t>(job.ranks[r].process);
    std::string who = "rank " + std::to_string(b->rank);
    Change change;
    if (!e.together.empty()) {
      std::vector<int64_t> all;
      for (size_t other : e.together) {
        change.pace[static_cast<int32_t>(job.ranks[other].process)] = 1 / (1 + e.excess);
        all.push_back(job.rankOf(job.ranks[other].process));
      }
      who = "the stage of " + ranksText(all);
      for (int64_t rank : all) job.together[rank] = all;
    } else if (losesTime(without)) {
      change.late[process] = extraLateness(job.ranks[r], e.excess);
    } else if (e.cause == Cause::uneven_work && knowsOwnWork(job.table, process)) {
      change.own[process] = extraWork(job.ranks[r], e.excess);
    } else {
      change.work[process] = 1 / (1 + e.excess);
    }
    // On GPUs of their own the others compute ahead while they wait for a collective; on a shared one they take turns
    // anyway. Stages of a pipeline have nothing to compute meanwhile.
    const double most =
        job.gpus_shared && !pipeline ? b->lost_us / static_cast<double>(job.ranks.size() - 1) : kUnknown;
    b->saved_pct = ask(who + " " + phraseOf(without), change, most);
    asked.push_back({change, b->saved_pct, &job.hidden_ranks[b->rank]});
  }
  for (Blame& b : blame)
    if (auto it = job.together.find(b.rank); it != job.together.end())
      for (const Blame& first : blame)
        if (first.rank == it->second[0]) b.saved_pct = first.saved_pct;
  size_t slow_links = 0;
  for (LinkEvidence& l : links) {
    if (!l.result.significant || l.comm == UINT32_MAX || ++slow_links > kMost) continue;
    Change usual, twice;
    usual.transfer[l.comm] = {std::isnan(l.left) ? 1 / l.result.slowdown : l.left, l.result.since_step};
    twice.transfer[l.comm] = {0.5};
    const std::string what = linkName(l.result);
    l.result.saved_pct = ask(what + " " + phraseOf(CauseWhatIf::link), usual);
    if (std::isnan(l.left)) ask(what + " were twice as fast", twice);
    asked.push_back({usual, l.result.saved_pct, &job.hidden_links[l.result.group]});
  }
  hiddenCosts(replay, base, asked);
  // Where no link is slow: the one the job waits for most.
  for (uint32_t c = 0; slow_links == 0 && !path.groups.empty() && c < job.table.comms.size(); ++c) {
    if (job.table.comms[c].name != path.groups[0].group) continue;
    Change twice;
    twice.transfer[c] = {0.5};
    ask("communicator " + path.groups[0].group + " were twice as fast", twice);
    break;
  }
  Change hidden;
  hidden.all_transfers = 0;
  ask("all communication were hidden", hidden);
  if (std::abs(path.replay_error_pct) > kMostReplayErrorPct) forget(job, path, blame, links);
  return path;
}

}  // namespace tracesmith::analysis
