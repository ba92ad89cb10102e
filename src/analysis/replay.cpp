#include "analysis/replay.hpp"

#include <algorithm>
#include <unordered_map>

namespace tracesmith::analysis {

using trace::kNull;

namespace {
constexpr int64_t kQueuedNs = 3000;  // starts this soon after the one before: it had been ready earlier
}

Replay::Replay(const JobData& job) : job_(job), dependencies_(job.table.parts.size()) {
  for (const RankFigures& r : job.ranks) {
    if (r.steps.empty()) continue;
    const sync::ClockTable& clock = clockOf(job.clocks, job.table.domain(r.process));
    first_[r.process] = clock.toReference(r.steps.front().ts);
    last_[r.process] = clock.toReference(r.steps.back().end);
  }
  const std::vector<Part>& parts = job.table.parts;
  for (const auto& [process, range] : job.table.of_process) {
    uint32_t anchor = UINT32_MAX;
    first_.try_emplace(process, parts[range.first].ts);
    last_.try_emplace(process, parts[range.second - 1].end);
    std::vector<uint32_t> blocking;  // not yet ended at the current part
    for (size_t i = range.first; i < range.second; ++i) {
      const Part& p = parts[i];
      Dependency& d = dependencies_[i];
      std::erase_if(blocking, [&](uint32_t b) {
        if (parts[b].end > p.ts) return false;
        if (anchor == UINT32_MAX || parts[b].end > parts[anchor].end) anchor = b;
        return true;
      });
      d.anchor = anchor;
      const int64_t from = anchor == UINT32_MAX ? first_[process] : parts[anchor].end;
      d.work_ns = d.least_ns = static_cast<double>(std::max<int64_t>(0, p.ts - from));
      if (i > range.first && parts[i - 1].end <= p.ts) {
        d.queue = static_cast<uint32_t>(i - 1);
        d.gap_ns = static_cast<float>(p.ts - parts[i - 1].end);
        if (d.gap_ns <= kQueuedNs)
          d.least_ns = p.enqueue == kNull ? 0 : std::clamp(static_cast<double>(p.enqueue - from), 0.0, d.work_ns);
        else
          d.gap_ns = 700;  // a kernel follows another no sooner
      }
      if (p.blocks) blocking.push_back(static_cast<uint32_t>(i));
    }
  }
}

double Replay::run(const Change& change) const {
  const PartTable& t = job_.table;
  std::vector<double> ends(t.parts.size(), 0);
  const auto origin = static_cast<double>(job_.start);
  std::unordered_map<int32_t, double> begins;
  for (const auto& [process, ns] : first_) begins[static_cast<int32_t>(process)] = static_cast<double>(ns) - origin;
  auto factor = [&](int32_t process) {
    auto it = change.work.find(process);
    return it == change.work.end() ? 1.0 : it->second;
  };
  std::vector<double> arrivals;
  for (const Instance& in : t.instances) {
    arrivals.resize(in.count);
    double last = 0;
    for (uint32_t k = 0; k < in.count; ++k) {
      const uint32_t at = t.order[in.first + k];
      const Part& p = t.parts[at];
      const Dependency& d = dependencies_[at];
      const double from = d.anchor == UINT32_MAX ? begins[p.process] : ends[d.anchor];
      double arrival = from + d.least_ns * factor(p.process);
      if (d.queue != UINT32_MAX) arrival = std::max(arrival, ends[d.queue] + static_cast<double>(d.gap_ns));
      arrivals[k] = arrival;
      last = std::max(last, arrival);
    }
    auto own = change.transfer.find(in.comm);
    const double scale = change.all_transfers * (own == change.transfer.end() ? 1.0 : own->second);
    const bool together = in.last_part >= 0;
    for (uint32_t k = 0; k < in.count; ++k) {
      const uint32_t at = t.order[in.first + k];
      const Part& p = t.parts[at];
      ends[at] = together ? last + std::max(0.0, static_cast<double>(p.end - in.last_start)) * scale
                          : arrivals[k] + static_cast<double>(p.end - p.ts) * scale;
    }
  }
  double end = 0;
  for (const auto& [process, range] : t.of_process) {
    // After the last collective the rank works on to its end.
    double reached = 0;
    int64_t was = INT64_MIN;
    for (size_t i = range.first; i < range.second; ++i) {
      reached = std::max(reached, ends[i]);
      was = std::max(was, t.parts[i].end);
    }
    const auto tail = static_cast<double>(std::max<int64_t>(0, last_.at(process) - was));
    end = std::max(end, reached + tail * factor(static_cast<int32_t>(process)));
  }
  double begin = 1e300;
  for (const auto& [process, ns] : begins) begin = std::min(begin, ns);
  return end - begin;
}

CriticalPath Replay::path() const {
  const PartTable& t = job_.table;
  CriticalPath out;
  std::map<int64_t, double> by_rank;
  std::map<uint32_t, double> by_comm;
  int64_t process = 0, now = INT64_MIN;
  for (const auto& [p, ns] : last_)
    if (ns > now) {
      now = ns;
      process = p;
    }
  const int64_t end = now;
  // The last part of the process that ended, then from late arrival to late arrival.
  auto range = t.of_process.find(process);
  uint32_t at = UINT32_MAX;
  if (range != t.of_process.end())
    for (size_t i = range->second.first; i < range->second.second; ++i)
      if (t.parts[i].end <= now && (at == UINT32_MAX || t.parts[i].end > t.parts[at].end))
        at = static_cast<uint32_t>(i);
  int64_t begin = end;
  for (size_t guard = 0; guard <= t.parts.size(); ++guard) {
    if (at == UINT32_MAX) {
      const int64_t first = std::min(now, first_.at(process));
      by_rank[process] += static_cast<double>(now - first) / 1000;
      out.work_us += static_cast<double>(now - first) / 1000;
      begin = first;
      break;
    }
    const Part& p = t.parts[at];
    by_rank[process] += static_cast<double>(std::max<int64_t>(0, now - p.end)) / 1000;
    out.work_us += static_cast<double>(std::max<int64_t>(0, now - p.end)) / 1000;
    uint32_t late = at;
    uint32_t comm = UINT32_MAX;
    if (p.instance != UINT32_MAX) {
      const Instance& in = t.instances[p.instance];
      comm = in.comm;
      if (in.last_part >= 0 && t.parts[static_cast<size_t>(in.last_part)].ts <= p.end)
        late = static_cast<uint32_t>(in.last_part);
    }
    const Part& l = t.parts[late];
    const double transfer = static_cast<double>(std::max<int64_t>(0, std::min(now, p.end) - l.ts)) / 1000;
    out.transfer_us += transfer;
    if (comm != UINT32_MAX) by_comm[comm] += transfer;
    process = l.process;
    now = l.ts;
    const Dependency& d = dependencies_[late];
    const bool queued = d.queue != UINT32_MAX && d.least_ns < d.work_ns;
    const uint32_t next = queued ? d.queue : d.anchor;
    if (next != UINT32_MAX && t.parts[next].ts >= l.ts) break;
    at = next;
  }
  out.total_us = static_cast<double>(end - begin) / 1000;
  out.other_us = std::max(0.0, out.total_us - out.work_us - out.transfer_us);
  for (const auto& [p, us] : by_rank) out.ranks.push_back({"rank", job_.rankOf(p), us});
  for (const auto& [c, us] : by_comm) out.groups.push_back({t.comms[c].name, kNull, us});
  auto larger = [](const auto& a, const auto& b) { return a.us > b.us; };
  std::stable_sort(out.ranks.begin(), out.ranks.end(), larger);
  std::stable_sort(out.groups.begin(), out.groups.end(), larger);
  return out;
}

}  // namespace tracesmith::analysis
