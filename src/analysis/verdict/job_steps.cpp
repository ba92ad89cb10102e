// The steps of the job: each over all ranks, and where the time of each rank went.
#include <algorithm>
#include <map>
#include <set>

#include "analysis/rows/repetition.hpp"
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
  b.copy_us = us(f.copy_ns);
  b.exposed_comm_us = us(f.exposed_comm_ns);
  b.hidden_comm_us = us(f.hidden_comm_ns);
  b.idle_us = us(f.idle_ns);
  if (f.expected_ns > 0) b.kernel_ratio = f.actual_ns / f.expected_ns;
  return b;
}

/// One operation of a rank, as its host called it.
struct Called {
  int64_t time;     // of the call; of its start where not all calls of the rank are known
  int64_t call;     // kNull: not known
  int64_t ts, end;  // on the device; the call where it did not end
  uint64_t what;
};

/// In the order of the calls: the same on every rank of a communicator.
std::map<int64_t, std::vector<Called>> callsOf(const PartTable& table) {
  std::map<int64_t, std::vector<Called>> out;
  std::set<int64_t> unknown;  // processes some calls of which have no time
  auto add = [&](const Part& p, bool ended) {
    const auto peer = static_cast<uint64_t>(p.peer < 0 ? INT32_MAX : p.peer - p.process);
    const uint64_t what = combined(combined(static_cast<uint64_t>(p.op), static_cast<uint64_t>(p.bytes)),
                                   combined(static_cast<uint64_t>(p.group_size), peer));
    if (p.enqueue == kNull) unknown.insert(p.process);
    out[p.process].push_back({p.enqueue, p.enqueue, ended ? p.ts : p.enqueue, ended ? p.end : p.enqueue, what});
  };
  for (const Part& p : table.parts) add(p, true);
  for (const OpenPart& o : table.open)
    if (o.part.enqueue != kNull) add(o.part, false);
  for (auto& [process, calls] : out) {
    if (unknown.contains(process))
      for (Called& c : calls) {
        c.time = c.ts;
        c.call = kNull;
      }
    std::stable_sort(calls.begin(), calls.end(), [](const Called& a, const Called& b) { return a.time < b.time; });
  }
  return out;
}

/// The steps of one rank, and how many operations one has. The last may be cut: it ends where it begins then.
std::vector<RankStep> stepsOf(const std::vector<Called>& calls, uint64_t& first, size_t& length) {
  std::vector<uint64_t> symbols;
  std::vector<int64_t> times;
  for (const Called& c : calls) {
    symbols.push_back(c.what);
    times.push_back(c.time);
  }
  std::vector<RankStep> out;
  const std::optional<Repetition> found = findRepetition(symbols, times, first);
  if (!found) return out;
  first = found->first;
  length = found->length;
  for (size_t s = 0; s < found->starts.size(); ++s) {
    const size_t from = found->starts[s];
    const bool last = s + 1 == found->starts.size();
    int64_t end = calls[from].ts;
    if (!last)
      end = std::max(end, calls[found->starts[s + 1]].ts);
    else if (from + found->length <= calls.size())
      for (size_t i = from; i < from + found->length; ++i) end = std::max(end, calls[i].end);
    out.push_back({calls[from].ts, end, static_cast<int64_t>(out.size()), calls[from].call});
  }
  return out;
}

/// A last step that is much shorter than the others, because nothing came after its last operation, is cut.
void cutLast(std::map<int64_t, std::vector<RankStep>>& ranks) {
  constexpr double kWhole = 0.75;  // of the usual step
  std::vector<double> last, usual;
  for (const auto& [process, steps] : ranks)
    for (const RankStep& s : steps) (&s == &steps.back() ? last : usual).push_back(us(s.end - s.ts));
  if (usual.empty() || median(last) >= kWhole * median(usual)) return;
  for (auto& [process, steps] : ranks) steps.back().end = steps.back().ts;
}

}  // namespace

void findByOperations(const PartTable& table, bool kernels, TraceSteps& steps) {
  constexpr size_t kTelling = 3;  // operations; steps of fewer may be layers: kernels tell
  std::map<int64_t, std::vector<RankStep>> found;
  uint64_t first = 0;
  size_t least = SIZE_MAX, most = 0, shortest = SIZE_MAX;
  const auto all = callsOf(table);
  for (const auto& [process, calls] : all) {
    size_t length = 0;
    std::vector<RankStep> own = stepsOf(calls, first, length);
    if (own.empty()) continue;
    least = std::min(least, own.size());
    most = std::max(most, own.size());
    shortest = std::min(shortest, length);
    found[process] = std::move(own);
  }
  if (found.empty() || found.size() != all.size() || most - least > kMostEdges) return;
  if (kernels && shortest < kTelling) return;
  cutLast(found);
  steps.by_process = std::move(found);
  steps.source = StepSource::operations;
  steps.try_kernels = kernels;
}

void numberFoundSteps(JobData& job) {
  constexpr double kWarm = 1.25;      // times the usual step: it still warms up
  constexpr size_t kMostOfSteps = 4;  // at most a quarter of the steps does
  size_t most = 0;
  for (const RankFigures& r : job.ranks) most = std::max(most, r.steps.size());
  if (most == 0) return;
  // The last step is the same one on all ranks. Which of the first are much longer than usual, on any of them?
  std::vector<std::vector<double>> lengths(most);
  for (const RankFigures& r : job.ranks)
    for (size_t s = 0; s < r.steps.size(); ++s)
      lengths[most - r.steps.size() + s].push_back(us(r.steps[s].end - r.steps[s].ts));
  std::vector<double> usual;
  for (const auto& values : lengths) usual.push_back(median(values));
  size_t first = 0;
  auto everywhere = [&](size_t s) { return lengths[s].size() == job.ranks.size(); };
  auto warm = [&](size_t s) {
    return everywhere(s) && *std::max_element(lengths[s].begin(), lengths[s].end()) < kWarm * median(usual);
  };
  while (first < std::min(most / kMostOfSteps, kMostWarmUp) && !warm(first)) ++first;
  for (RankFigures& r : job.ranks) {
    const auto shift = static_cast<int64_t>(most) - static_cast<int64_t>(r.steps.size()) - static_cast<int64_t>(first);
    const int64_t before = r.steps.empty() ? 0 : r.steps.front().step;
    for (size_t s = 0; s < r.steps.size(); ++s) r.steps[s].step = static_cast<int64_t>(s) + shift;
    for (size_t s = 0; s < r.steps.size() && r.steps[s].step < 0; ++s) r.early[s] = {};
    std::erase_if(r.steps, [](const StepFigures& f) { return f.step < 0; });
    auto parts = job.table.of_process.find(r.process);
    if (parts == job.table.of_process.end()) continue;
    for (size_t i = parts->second.first; i < parts->second.second; ++i)
      if (int32_t& step = job.table.parts[i].step; step >= 0)
        step = std::max(-1, step - static_cast<int32_t>(before - shift));
  }
}

void leaveOutStartUp(JobData& job, StepSource source) {
  if (job.step_ns <= 0) return;
  PartTable& t = job.table;
  const bool found = wereFound(source);
  std::vector<Instance> kept;
  for (const Instance& in : t.instances) {
    // What the device still does after the last mark belongs to that step.
    const bool outside = in.last_end <= job.start || (found && in.first_start >= job.end);
    for (uint32_t k = 0; k < in.count; ++k)
      t.parts[t.order[in.first + k]].instance = outside ? UINT32_MAX : static_cast<uint32_t>(kept.size());
    if (!outside) kept.push_back(in);
  }
  t.instances = std::move(kept);
}

void cutByCollectives(const PartTable& table, TraceSteps& steps) {
  constexpr size_t kLeast = 12, kMost = 20;
  std::map<uint32_t, std::map<int32_t, std::vector<const Part*>>> by_comm;
  for (const Part& p : table.parts)
    if (endsTogether(p.op) && p.comm != trace::kNoName) by_comm[p.comm][p.process].push_back(&p);
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
      steps.by_process[process].push_back({parts[w * (count - 1) / windows]->ts,
                                           parts[(w + 1) * (count - 1) / windows]->ts, static_cast<int64_t>(w), kNull});
  steps.source = StepSource::windows;
}

void sumUpSteps(JobData& job, StepSource source, Analysis& out) {
  std::set<int64_t> numbers;
  for (const RankFigures& r : job.ranks)
    for (const StepFigures& f : r.steps) numbers.insert(f.step);
  job.steps.assign(numbers.begin(), numbers.end());
  std::vector<StepResult> steps(job.steps.size());
  std::vector<std::vector<double>> durations(steps.size());
  job.start = INT64_MAX;
  job.end = INT64_MIN;
  for (const RankFigures& r : job.ranks) {
    const trace::ClockTable& clock = clockOf(job.clocks, job.table.domain(r.process));
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
      if (f.known()) out.breakdown.push_back(breakdownOf(job, r, f));
    }
  }
  std::vector<double> all;
  for (size_t i = 0; i < steps.size(); ++i) all.push_back(steps[i].duration_us = median(durations[i]));
  if (job.start > job.end) job.start = job.end = 0;
  if (job.steps.empty() || job.steps.back() == kNull || source == StepSource::windows) return;
  out.step_us = median(all);
  job.step_ns = 1000 * out.step_us;
  out.steps = std::move(steps);
}

}  // namespace tracesmith::analysis
