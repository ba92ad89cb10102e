// The steps of the job: each over all ranks, and where the time of each rank went.
#include <algorithm>
#include <map>
#include <set>

#include "analysis/verdict/job_data.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

Breakdown breakdownOf(const JobData& job, const RankFigures& r, const StepFigures& f) {
  Breakdown b;
  b.rank = job.rankOf(r.process);
  b.step = f.step;
  if (r.phases_known) {
    b.forward_us = us(f.phase_ns[0]);
    b.backward_us = us(f.phase_ns[1]);
    b.optimizer_us = us(f.phase_ns[2]);
  }
  b.compute_us = us(f.phase_ns[0] + f.phase_ns[1] + f.phase_ns[2] + f.other_ns);
  b.other_us = us(f.other_ns);
  b.data_us = us(f.data_ns);
  b.exposed_comm_us = us(f.exposed_comm_ns);
  b.hidden_comm_us = us(f.hidden_comm_ns);
  b.idle_us = us(f.idle_ns);
  if (f.expected_ns > 0) b.kernel_ratio = f.actual_ns / f.expected_ns;
  return b;
}

}  // namespace

void cutByCollectives(const PartTable& table, TraceSteps& steps) {
  constexpr size_t kLeast = 12, kMost = 20;
  std::map<uint32_t, std::map<int32_t, std::vector<const Part*>>> by_comm;
  for (const Part& p : table.parts)
    if (endsTogether(p.op) && p.comm != kNoName) by_comm[p.comm][p.process].push_back(&p);
  const std::map<int32_t, std::vector<const Part*>>* largest = nullptr;
  for (const auto& [comm, processes] : by_comm)
    if (!largest || processes.size() > largest->size()) largest = &processes;
  if (!largest || largest->size() < 2) return;
  size_t count = SIZE_MAX;
  for (const auto& [process, parts] : *largest) count = std::min(count, parts.size());
  if (count < kLeast) return;
  const size_t windows = std::min(kMost, count / 2);
  for (const auto& [process, parts] : *largest)
    for (size_t w = 0; w < windows; ++w)
      steps.by_process[process].push_back(
          {parts[w * (count - 1) / windows]->ts, parts[(w + 1) * (count - 1) / windows]->ts, static_cast<int64_t>(w)});
  steps.windows = true;
}

void sumUpSteps(JobData& job, bool windows, Analysis& out) {
  std::set<int64_t> numbers;
  for (const RankFigures& r : job.ranks)
    for (const StepFigures& f : r.steps) numbers.insert(f.step);
  job.steps.assign(numbers.begin(), numbers.end());
  std::vector<StepResult> steps(job.steps.size());
  std::vector<std::vector<double>> durations(steps.size());
  job.start = INT64_MAX;
  job.end = INT64_MIN;
  for (const RankFigures& r : job.ranks) {
    const sync::ClockTable& clock = clockOf(job.clocks, job.table.domain(r.process));
    for (const StepFigures& f : r.steps) {
      const auto column =
          static_cast<size_t>(std::lower_bound(job.steps.begin(), job.steps.end(), f.step) - job.steps.begin());
      StepResult& s = steps[column];
      const int64_t start = clock.toReference(f.ts), end = clock.toReference(f.end);
      job.start = std::min(job.start, start);
      job.end = std::max(job.end, end);
      s.step = f.step;
      s.start_ns = s.ranks == 0 ? start : std::min(s.start_ns, start);
      ++s.ranks;
      durations[column].push_back(us(f.end - f.ts));
      if (us(f.end - f.ts) > s.slowest_us) {
        s.slowest_us = us(f.end - f.ts);
        s.slowest_rank = job.rankOf(r.process);
      }
      out.breakdown.push_back(breakdownOf(job, r, f));
    }
  }
  std::vector<double> all;
  for (size_t i = 0; i < steps.size(); ++i) all.push_back(steps[i].duration_us = median(durations[i]));
  if (job.start > job.end) job.start = job.end = 0;
  if (!job.steps.empty() && job.steps.back() != kNull && !windows) {
    job.step_ns = 1000 * median(all);
    out.steps = std::move(steps);
  }
}

}  // namespace tracesmith::analysis
