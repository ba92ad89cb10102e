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
  std::vector<Asked> asked;
  std::vector<Blame*> ranks;
  for (Blame& b : blame)
    if (b.significant) ranks.push_back(&b);
  std::stable_sort(ranks.begin(), ranks.end(), [](Blame* a, Blame* b) { return a->slowdown > b->slowdown; });
  if (ranks.size() > kMost) ranks.resize(kMost);
  for (Blame* b : ranks)
    for (size_t r = 0; r < job.ranks.size(); ++r) {
      if (job.rankOf(job.ranks[r].process) != b->rank) continue;
      const RankEvidence& e = evidence[r];
      const CauseWhatIf without = info(e.cause).what_if;
      Change change;
      const auto process = static_cast<int32_t>(job.ranks[r].process);
      if (losesTime(without))
        change.late[process] = extraLateness(job.ranks[r], e.excess);
      else
        change.work[process] = 1 / (1 + e.excess);
      // On GPUs of their own the others compute ahead while they wait for a collective; on a shared one they take turns
      // anyway. Stages of a pipeline have nothing to compute meanwhile.
      const double most =
          job.gpus_shared && !pipeline ? b->lost_us / static_cast<double>(job.ranks.size() - 1) : kUnknown;
      b->saved_pct = ask("rank " + std::to_string(b->rank) + " " + phraseOf(without), change, most);
      asked.push_back({change, b->saved_pct, &job.hidden_ranks[b->rank]});
    }
  size_t slow_links = 0;
  for (LinkEvidence& l : links) {
    if (!l.result.significant || l.comm == UINT32_MAX || ++slow_links > kMost) continue;
    Change usual, twice;
    usual.transfer[l.comm] = {1 / l.result.slowdown, l.result.since_step};
    twice.transfer[l.comm] = {0.5};
    l.result.saved_pct = ask("communicator " + l.result.group + " " + phraseOf(CauseWhatIf::link), usual);
    ask("communicator " + l.result.group + " were twice as fast", twice);
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
  if (std::abs(path.replay_error_pct) > kMostReplayErrorPct) path.what_if.clear();
  return path;
}

}  // namespace tracesmith::analysis
