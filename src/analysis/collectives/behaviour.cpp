#include "analysis/collectives/behaviour.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <tuple>

#include "base/statistics.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {

constexpr int64_t kMeetNs = 30'000;    // ranks of one operation end within this
constexpr int64_t kApartNs = 150'000;  // and begin farther apart than this, or it says nothing
constexpr size_t kLeast = 8;           // occurrences
constexpr size_t kLeastApart = 6;
constexpr double kMostOff = 0.1;  // of the occurrences may be otherwise: one that was preempted, say
constexpr size_t kMostGroups = 64;

using One = KernelSample::One;
using Kernel = std::pair<uint32_t, size_t>;  // name, and which of the rank's streams that run it

struct Member {
  int64_t process;
  const std::vector<One>* all;
  int64_t offset = 0;  // of its clock to that of the first member
};

/// Whether these two end together. A clock that is not the same may differ by any constant.
bool endTogether(const Member& a, Member& b, bool same_clock) {
  std::array<int64_t, KernelSample::kMost> apart;  // where both have it
  size_t both = 0;
  for (auto x = a.all->begin(), y = b.all->begin(); x != a.all->end() && y != b.all->end();) {
    if (x->at == y->at) apart[both++] = y->end - x->end;
    const bool first = x->at <= y->at, second = y->at <= x->at;
    x += first;
    y += second;
  }
  if (both < kLeast) return false;
  const auto end = apart.begin() + static_cast<ptrdiff_t>(both);
  b.offset = same_clock ? 0 : median(std::vector<int64_t>(apart.begin(), end));
  const auto off = std::count_if(apart.begin(), end, [&](int64_t ns) { return std::abs(ns - b.offset) > kMeetNs; });
  return static_cast<double>(off) <= kMostOff * static_cast<double>(both);
}

/// Ranks that compute the same in step begin and end together: only where they began apart it says something that they
/// ended together, and that nobody ended before the last began.
bool synchronises(const std::vector<Member>& group) {
  size_t met = 0, apart = 0;
  for (const One& first : *group[0].all) {
    int64_t first_start = first.ts, last_start = first.ts, first_end = first.end, last_end = first.end;
    size_t there = 1;
    for (size_t m = 1; m < group.size(); ++m) {
      auto it = std::lower_bound(group[m].all->begin(), group[m].all->end(), first.at,
                                 [](const One& o, int64_t at) { return o.at < at; });
      if (it == group[m].all->end() || it->at != first.at) continue;
      ++there;
      first_start = std::min(first_start, it->ts - group[m].offset);
      last_start = std::max(last_start, it->ts - group[m].offset);
      first_end = std::min(first_end, it->end - group[m].offset);
      last_end = std::max(last_end, it->end - group[m].offset);
    }
    if (there < group.size() || last_start - first_start < kApartNs) continue;
    ++apart;
    met += last_end - first_end <= kMeetNs && first_end + kMeetNs >= last_start;
  }
  return apart >= kLeastApart && static_cast<double>(apart - met) <= kMostOff * static_cast<double>(apart);
}

}  // namespace

void KernelSampler::keep(uint32_t name, int64_t stream, int64_t step, int64_t ts, int64_t end) {
  std::vector<uint32_t>& own = index_[name];
  auto at = std::find_if(own.begin(), own.end(), [&](uint32_t i) { return samples_[i].sample.stream == stream; });
  if (at == own.end()) {
    at = own.insert(own.end(), static_cast<uint32_t>(samples_.size()));
    samples_.push_back({{name, stream, {}}});
  }
  Own& s = samples_[*at];
  if (s.sample.first.size() == KernelSample::kMost) return;
  if (s.step != step) s.step = step, s.next = 0;
  s.sample.first.push_back({sampleAt(step, s.next++), ts, end});
}

std::vector<KernelSample> KernelSampler::take() {
  constexpr size_t kMostKernels = 128;
  std::vector<std::pair<int64_t, KernelSample*>> sorted;  // by time
  for (Own& s : samples_) {
    if (s.sample.first.size() < kLeast) continue;
    int64_t ns = 0;
    for (const One& o : s.sample.first) ns += o.end - o.ts;
    sorted.emplace_back(ns, &s.sample);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (sorted.size() > kMostKernels) sorted.resize(kMostKernels);
  std::vector<KernelSample> out;
  for (auto& [ns, sample] : sorted) out.push_back(std::move(*sample));
  return out;
}

Synchronising Synchronising::find(const std::map<int64_t, std::vector<KernelSample>>& samples, const PartTable& table) {
  std::map<Kernel, std::vector<Member>> kernels;
  for (const auto& [process, own] : samples) {
    std::map<uint32_t, std::map<int64_t, const KernelSample*>> streams;  // by name
    for (const KernelSample& s : own) streams[s.name][s.stream] = &s;
    for (const auto& [name, by_stream] : streams) {
      size_t place = 0;
      for (const auto& [stream, sample] : by_stream) {
        if (sample->first.size() >= kLeast) kernels[{name, place}].push_back({process, &sample->first});
        ++place;
      }
    }
  }
  Synchronising out;
  uint32_t number = 0;
  for (auto& [kernel, members] : kernels) {
    // All ranks that run it must take part, in groups of one size.
    std::vector<std::vector<Member>> groups;
    bool all = true;
    while (all && !members.empty()) {
      std::vector<Member> group = {members.front()}, others;
      const std::string& domain = table.domain(group[0].process);
      for (Member& m : std::span(members).subspan(1)) {
        const bool same_clock = !domain.empty() && domain == table.domain(m.process);
        (endTogether(group[0], m, same_clock) ? group : others).push_back(m);
      }
      all = group.size() > 1 && (groups.empty() || group.size() == groups[0].size()) && groups.size() < kMostGroups &&
            synchronises(group);
      groups.push_back(std::move(group));
      members = std::move(others);
    }
    if (!all) continue;
    for (const auto& group : groups) {
      for (const Member& m : group) out.groups_[kernel][m.process] = {number, static_cast<int32_t>(group.size())};
      ++number;
    }
  }
  return out;
}

std::vector<uint32_t> Synchronising::names() const {
  std::set<uint32_t> out;
  for (const auto& [kernel, processes] : groups_) out.insert(kernel.first);
  return {out.begin(), out.end()};
}

size_t Synchronising::apply(PartTable& table) const {
  std::set<uint32_t> known;
  for (uint32_t name : names()) known.insert(name);
  size_t changed = 0;
  std::map<uint32_t, std::map<int64_t, int64_t>> order;  // by group: numbers of what its ranks do
  for (const auto& [process, range] : table.of_process) {
    std::map<uint32_t, std::set<int32_t>> streams;  // by kernel
    bool steps = false;
    for (size_t i = range.first; i < range.second; ++i) steps |= table.parts[i].step >= 0;
    // What is in no step is start-up, of which ranks need not have recorded the same.
    auto candidate = [&](const Part& p) {
      return p.comm == trace::kNoName && p.kernel != trace::kNoName && known.contains(p.kernel) &&
             (p.step >= 0 || !steps);
    };
    for (size_t i = range.first; i < range.second; ++i)
      if (const Part& p = table.parts[i]; candidate(p)) streams[p.kernel].insert(p.stream);
    std::map<std::tuple<uint32_t, int32_t, int32_t>, int64_t> next;  // by kernel, stream and step
    for (size_t i = range.first; i < range.second; ++i) {
      Part& p = table.parts[i];
      if (!candidate(p)) continue;
      const std::set<int32_t>& own = streams[p.kernel];
      const auto place = static_cast<size_t>(std::distance(own.begin(), own.find(p.stream)));
      auto kernel = groups_.find({p.kernel, place});
      if (kernel == groups_.end()) continue;
      auto group = kernel->second.find(process);
      if (group == kernel->second.end()) continue;
      p.op = OpKind::all_to_all;  // everybody waits for everybody: more is not known
      p.comm = p.kernel;
      p.behaviour = group->second.number + 1;
      p.group_size = group->second.size;
      p.seq = sampleAt(p.step, next[{p.kernel, p.stream, p.step}]++);
      order[p.behaviour].emplace(p.seq, 0);
      ++changed;
    }
  }
  for (auto& [group, numbers] : order) {
    int64_t next = 0;
    for (auto& [at, number] : numbers) number = next++;
  }
  for (Part& p : table.parts)
    if (p.behaviour) p.seq = order[p.behaviour][p.seq];
  return changed;
}

}  // namespace tracesmith::analysis
