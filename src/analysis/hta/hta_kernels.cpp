// HTA's kernel breakdown and its straggler list.
#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "analysis/hta/hta.hpp"
#include "base/statistics.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

constexpr size_t kNumKernels = 10;  // HTA's default

struct Sums {
  double count = 0, sum = 0, squares = 0, max = -INFINITY, min = INFINITY;
  void add(double v) {
    ++count;
    sum += v;
    squares += v * v;
    max = std::max(max, v);
    min = std::min(min, v);
  }
  double std() const { return count < 2 ? 0 : std::sqrt(std::max(0.0, (squares - sum * sum / count) / (count - 1))); }
};

}  // namespace

void HtaAnalysis::kernels(int64_t rank, const std::vector<HtaRow>& kept, Hta& out) const {
  std::unordered_map<uint32_t, Sums> by_type[3];
  for (const HtaRow& r : kept)
    if (r.type != HtaType::other) by_type[static_cast<int>(r.type)][r.name].add(static_cast<double>(r.end - r.ts));
  for (int t = 0; t < 3; ++t) {
    std::vector<std::pair<uint32_t, Sums>> list(by_type[t].begin(), by_type[t].end());
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.second.sum != b.second.sum ? a.second.sum > b.second.sum : a.first < b.first;
    });
    // A kernel that lasts less than a µs may end, in whole µs, before it began: how long it took is not known then.
    auto known = [](double us) { return us < 0 ? std::nan("") : us; };
    auto emit = [&](const std::string& name, const Sums& s) {
      out.kernels.push_back({rank, htaTypeName(HtaType(t)), name, known(s.sum), known(s.max), known(s.min),
                             known(s.count > 0 ? s.sum / s.count : 0), s.std()});
    };
    if (list.size() <= kNumKernels) {
      for (const auto& [name, s] : list) emit(std::string(names_.text(name)), s);
      continue;
    }
    // HTA regroups the sums: a kernel that keeps its name has one of them.
    std::vector<double> cumulative;
    double total = 0;
    for (const auto& [name, s] : list) cumulative.push_back(total += s.sum);
    const double limit = quantileOfSorted(cumulative, 0.8);
    Sums others;
    for (size_t i = 0; i < list.size(); ++i) {
      if (cumulative[i] > limit || i >= kNumKernels) {
        others.add(list[i].second.sum);
        continue;
      }
      Sums own;
      own.add(list[i].second.sum);
      emit(std::string(names_.text(list[i].first)), own);
    }
    if (others.count > 0) emit("others", others);
  }
}

void HtaAnalysis::communication(const RankRows& rows, const std::vector<HtaRow>& kept, Part& part) const {
  auto steps = steps_.profiler_steps.find(rows.process);
  if (steps == steps_.profiler_steps.end()) return;
  const std::vector<RankStep>& list = steps->second;
  for (const HtaRow& r : kept) {
    if (!r.launch) continue;
    auto step = std::upper_bound(list.begin(), list.end(), r.launch->ts,
                                 [](int64_t ts, const RankStep& s) { return ts < s.ts; });
    if (step == list.begin() || r.launch->ts >= (--step)->end) continue;
    const int64_t iteration = step->step;
    part.first = std::min(part.first, r.ts);
    part.last = std::max(part.last, r.end);
    if (iteration > 0 && rows.streams[static_cast<size_t>(r.stream)] > 0 && r.name != trace::kNoName &&
        names_.text(r.name).starts_with("ncclKernel"))
      part.communication.push_back(
          {rows.rank(), rows.streams[static_cast<size_t>(r.stream)], iteration, r.ts, r.end - r.ts, r.name});
  }
}

std::vector<HtaStraggler> HtaAnalysis::stragglers() const {
  int64_t first = INT64_MAX, last = INT64_MIN;
  std::set<int64_t> iterations;
  for (const auto& [process, part] : parts_) {
    first = std::min(first, part.first);
    last = std::max(last, part.last);
    for (const Communication& c : part.communication) iterations.insert(c.iteration);
  }
  if (iterations.empty() || parts_.size() < 2) return {};
  int64_t missed = INT64_MAX;
  for (const auto& [process, part] : parts_) missed = std::min(missed, missing(process, first, last));
  const double mean = static_cast<double>(last - first - missed) / static_cast<double>(iterations.size());
  struct Seen {
    double start, dur;
  };
  // (stream, name) → iteration → rank: the last kernel of each that is long enough.
  std::map<std::pair<int64_t, uint32_t>, std::map<int64_t, std::map<int64_t, Seen>>> all;
  for (const auto& [process, part] : parts_)
    for (const Communication& c : part.communication)
      if (static_cast<double>(c.dur) >= 0.01 * mean)
        all[{c.stream, c.name}][c.iteration][c.rank] = {static_cast<double>(c.ts - first) / mean,
                                                        static_cast<double>(c.dur) / mean};
  const std::map<int64_t, std::map<int64_t, Seen>>* chosen = nullptr;
  double best = -1;
  for (const auto& [key, by_iteration] : all) {
    double spread = 0;
    for (const auto& [iteration, by_rank] : by_iteration) {
      Sums s;
      for (const auto& [rank, seen] : by_rank) s.add(seen.dur);
      spread += s.std();
    }
    spread /= static_cast<double>(by_iteration.size());
    if (spread > best) {
      best = spread;
      chosen = &by_iteration;
    }
  }
  constexpr size_t kCandidates = 2;  // HTA's default
  std::map<int64_t, uint64_t> flags;
  if (chosen)
    for (const auto& [iteration, by_rank] : *chosen) {
      std::vector<double> starts;
      for (const auto& [rank, seen] : by_rank) starts.push_back(seen.start);
      std::sort(starts.rbegin(), starts.rend());
      const double limit = starts[std::min(kCandidates, starts.size()) - 1];
      for (const auto& [rank, seen] : by_rank) flags[rank] += seen.start >= limit;
    }
  std::vector<HtaStraggler> out;
  for (const auto& [rank, count] : flags)
    if (count > 0) out.push_back({rank, count});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.flags > b.flags; });
  if (out.size() > kCandidates) out.resize(kCandidates);
  return out;
}

}  // namespace tracesmith::analysis
