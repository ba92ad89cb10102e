#include "analysis/verdict/replay.hpp"

#include <algorithm>
#include <span>

#include "base/statistics.hpp"

namespace tracesmith::analysis {

using trace::kNull;

namespace {
constexpr int64_t kQueuedNs = 3000;  // starts this soon after the one before: it had been ready earlier
}

Replay::Replay(const JobData& job) : job_(job), slot_of_(job.table.parts.size()), slots_(job.table.order.size()) {
  const PartTable& t = job.table;
  for (const RankFigures& r : job.ranks) {
    if (r.steps.empty()) continue;
    const trace::ClockTable& clock = clockOf(job.clocks, t.domain(r.process));
    first_[r.process] = clock.toReference(r.steps.front().ts);
    last_[r.process] = clock.toReference(r.steps.back().end);
  }
  for (uint32_t s = 0; s < t.order.size(); ++s) slot_of_[t.order[s]] = s;
  for (const auto& [process, range] : t.of_process) addProcess(process, range);
  for (const Instance& in : t.instances)
    for (uint32_t s = in.first; s < in.first + in.count; ++s) {
      const Part& p = t.parts[t.order[s]];
      const bool buffered = isPair(in.op) && p.end < in.last_start;  // small messages leave before they are received
      slots_[s].kept = waitsForLast(in, p) && !buffered;
      slots_[s].transfer_ns = slots_[s].kept ? std::max(0.0, static_cast<double>(p.end - in.last_start))
                                             : static_cast<double>(p.end - p.ts);
    }
  compareWithPeers();
}

namespace {

/// The median of sorted values without one of them. There must be another.
double medianWithout(std::span<const std::pair<double, uint32_t>> sorted, size_t left_out) {
  auto at = [&](size_t i) { return sorted[i < left_out ? i : i + 1].first; };
  const size_t others = sorted.size() - 1;
  return (at((others - 1) / 2) + at(others / 2)) / 2;
}

}  // namespace

/// The ranks of a collective went on together after what they last waited for: what one of them then did longer than
/// the others made it late. Stages of a pipeline have no such others, and nor has a rank on a GPU of another model.
void Replay::compareWithPeers() {
  using Kind = std::pair<uint32_t, uint32_t>;  // model, stage
  std::vector<Kind> kinds;                     // by process
  for (const Process& p : processes_) kinds.emplace_back(job_.models.of(p.process), job_.stageOf(p.process));
  std::map<Kind, std::vector<std::pair<double, uint32_t>>> groups;  // what each of its ranks took, and its slot
  constexpr uint32_t kAnyStage = UINT32_MAX;
  auto compare = [&](const Kind& kind, bool all) {
    auto& group = groups[kind];
    std::sort(group.begin(), group.end());
    for (size_t i = 0; i < group.size(); ++i) {
      Slot& s = slots_[group[i].second];
      if (!all && !s.alone) continue;
      s.alone = group.size() < 2;
      if (!s.alone) s.early_ns = std::clamp(s.least_ns - medianWithout(group, i), 0.0, std::max(0.0, s.least_ns));
    }
    return group.size() > 1;
  };
  for (const Instance& in : job_.table.instances) {
    if (!endsTogether(in.op) || in.count < 2) continue;
    for (auto& [kind, group] : groups) group.clear();
    for (uint32_t k = 0; k < in.count; ++k)
      groups[kinds[slots_[in.first + k].process]].emplace_back(slots_[in.first + k].least_ns, in.first + k);
    std::vector<uint32_t> alone;  // models some rank of which is the only one of its stage
    for (const auto& [kind, group] : groups)
      if (!group.empty() && kind.second != kAnyStage && !compare(kind, true)) alone.push_back(kind.first);
    for (uint32_t model : alone) {
      auto& any = groups[{model, kAnyStage}];
      if (!any.empty()) continue;
      for (uint32_t k = 0; k < in.count; ++k)
        if (kinds[slots_[in.first + k].process].first == model)
          any.emplace_back(slots_[in.first + k].least_ns, in.first + k);
      compare({model, kAnyStage}, false);
    }
  }
}

/// Of sends and receives it is known how far computation had come: they bind stages that have nothing else in common.
void Replay::addAnchors(int64_t process, std::pair<size_t, size_t> range) {
  const std::vector<Part>& parts = job_.table.parts;
  const size_t begin = anchors_.size();
  for (size_t i = range.first; i < range.second; ++i) {
    const Part& p = parts[i];
    const bool early = p.held_ns != kNull && p.held_ns < 0;
    if ((!p.blocks && !early) || p.instance == UINT32_MAX) continue;
    Anchor a;
    a.slot = slot_of_[i];
    a.at = early ? p.end - p.held_ns : p.end;
    a.bound = p.held_ns != kNull && isPair(p.op);
    a.process = static_cast<uint32_t>(processes_.size());
    anchors_.push_back(a);
  }
  std::stable_sort(anchors_.begin() + static_cast<ptrdiff_t>(begin), anchors_.end(),
                   [](const Anchor& a, const Anchor& b) { return a.at < b.at; });
  int64_t at = first_[process], late = 0, own = 0;
  for (size_t k = begin; k < anchors_.size(); ++k) {
    Anchor& a = anchors_[k];
    const Part& p = parts[job_.table.order[a.slot]];
    a.first = k == begin;
    const int64_t stopped = p.held_ns == kNull ? p.end : p.end - p.held_ns;
    a.work_ns = static_cast<double>(a.first ? stopped - at : std::max<int64_t>(0, stopped - at));
    const double most = std::max(0.0, a.work_ns);
    const int64_t late_then = p.held_ns < 0 ? p.late_ns : p.late_before_ns - std::max<int64_t>(0, p.ts - stopped);
    a.late_ns = std::clamp(static_cast<double>(late_then - late), 0.0, most);
    a.own_ns = std::clamp(static_cast<double>(p.own_ns - own), 0.0, most);
    at = a.at;
    late = p.late_ns;
    own = p.own_ns;
  }
}

void Replay::addProcess(int64_t process, std::pair<size_t, size_t> range) {
  const std::vector<Part>& parts = job_.table.parts;
  first_.try_emplace(process, parts[range.first].ts);
  last_.try_emplace(process, parts[range.second - 1].end);
  const auto anchors = static_cast<ptrdiff_t>(anchors_.size());
  addAnchors(process, range);
  std::map<int32_t, uint32_t> last_of;  // by stream
  int64_t last_end = INT64_MIN;
  for (size_t i = range.first; i < range.second; ++i) {
    const Part& p = parts[i];
    Slot& d = slots_[slot_of_[i]];
    d.process = static_cast<uint32_t>(processes_.size());
    int64_t ready = p.ts;
    bool at_once = false;  // after the one before it, and when it was ready nobody knows
    const auto before = last_of.find(p.stream);
    if (before != last_of.end() && parts[before->second].end <= p.ts) {
      const int64_t end = parts[before->second].end;
      d.queue = slot_of_[before->second];
      d.gap_ns = static_cast<float>(p.ts - end);
      if (p.ts - p.slack_ns < end)
        ready = p.ts - p.slack_ns;
      else if (p.ts - end > kQueuedNs)
        d.gap_ns = 700;  // a kernel follows another no sooner
      else if (p.enqueue == kNull)
        at_once = true;
      else
        ready = std::min(p.ts, p.enqueue);
    }
    last_of[p.stream] = static_cast<uint32_t>(i);
    auto anchor = std::upper_bound(anchors_.begin() + anchors, anchors_.end(), ready,
                                   [](int64_t at, const Anchor& a) { return at < a.at; });
    int64_t from = first_[process], late = 0, own = 0;
    if (anchor != anchors_.begin() + anchors) {
      --anchor;
      from = anchor->at;
      d.anchor = static_cast<uint32_t>(anchor - anchors_.begin());
      late = parts[job_.table.order[anchor->slot]].late_ns;
      own = parts[job_.table.order[anchor->slot]].own_ns;
    }
    d.least_ns = at_once ? 0 : static_cast<double>(ready - from);  // less than nothing: before the rank's first step
    d.late_ns = std::clamp(static_cast<double>(p.late_before_ns - late), 0.0, std::max(0.0, d.least_ns));
    d.own_ns = std::clamp(static_cast<double>(p.own_before_ns - own), 0.0, std::max(0.0, d.least_ns));
    d.queued = at_once || ready < p.ts;
    last_end = std::max(last_end, p.end);
  }
  // After the last collective the rank works on to its end.
  processes_.push_back({process, static_cast<double>(first_[process]) - static_cast<double>(job_.start),
                        static_cast<double>(std::max<int64_t>(0, last_[process] - last_end))});
}

double Replay::run(const Change& change) const {
  std::vector<double> ends(slots_.size(), 0);
  struct Own {
    bool changed = false;
    double work = 1, late = 0, pace = 1, own = 0;
  };
  std::vector<Own> owns;
  std::vector<double> reached(processes_.size(), 0);
  for (const Process& p : processes_) {
    Own& own = owns.emplace_back();
    if (auto it = change.work.find(static_cast<int32_t>(p.process)); it != change.work.end())
      own = {true, it->second, 0};
    if (auto it = change.pace.find(static_cast<int32_t>(p.process)); it != change.pace.end())
      own = {false, it->second, 0, it->second};
    if (auto it = change.own.find(static_cast<int32_t>(p.process)); it != change.own.end())
      own = {true, 1, 0, 1, it->second};
    if (auto it = change.late.find(static_cast<int32_t>(p.process)); it != change.late.end())
      own = {true, 1, it->second};
  }
  std::vector<double> went_on(anchors_.size(), -1);
  // Not before the operation has ended, nor before computation has come so far.
  auto timeOf = [&](uint32_t anchor) {
    uint32_t known = anchor;
    while (went_on[known] < 0 && anchors_[known].bound && !anchors_[known].first) --known;
    for (uint32_t k = known; k <= anchor; ++k) {
      const Anchor& a = anchors_[k];
      if (went_on[k] >= 0) continue;
      went_on[k] = ends[a.slot];
      if (!a.bound) continue;
      const Own& own = owns[a.process];
      double work = a.work_ns * own.pace;
      if (own.changed) work -= std::max(0.0, a.work_ns) * (1 - own.work) + a.late_ns * own.late + a.own_ns * own.own;
      went_on[k] = std::max(went_on[k], (a.first ? processes_[a.process].begin_ns : went_on[k - 1]) + work);
    }
    return went_on[anchor];
  };
  std::vector<double> arrivals;
  for (const Instance& in : job_.table.instances) {
    const std::span<const Slot> slots(&slots_[in.first], in.count);
    const bool pair = isPair(in.op);
    arrivals.resize(in.count);
    double last = 0;
    for (uint32_t k = 0; k < in.count; ++k) {
      const Slot& s = slots[k];
      const double from = s.anchor == UINT32_MAX ? processes_[s.process].begin_ns : timeOf(s.anchor);
      const Own& own = owns[s.process];
      const bool compared = !pair && !s.alone;
      double arrival = from + s.least_ns * own.pace;
      if (own.changed && compared) arrival -= s.early_ns;
      if (own.changed && !compared)
        arrival -= std::max(0.0, s.least_ns) * (1 - own.work) + s.late_ns * own.late + s.own_ns * own.own;
      if (s.queue != UINT32_MAX) arrival = std::max(arrival, ends[s.queue] + static_cast<double>(s.gap_ns));
      arrivals[k] = arrival;
      last = std::max(last, arrival);
    }
    auto link = change.transfer.find(in.comm);
    const bool other =
        link != change.transfer.end() && (link->second.since_step == kNull || in.step >= link->second.since_step);
    const double scale = change.all_transfers * (other ? link->second.factor : 1.0);
    for (uint32_t k = 0; k < in.count; ++k) {
      const Slot& s = slots[k];
      const double end = (s.kept ? last : arrivals[k]) + s.transfer_ns * scale;
      ends[in.first + k] = end;
      reached[s.process] = std::max(reached[s.process], end);
    }
  }
  double end = 0, begin = 1e300;
  for (size_t i = 0; i < processes_.size(); ++i) end = std::max(end, reached[i] + processes_[i].tail_ns * owns[i].work);
  for (const auto& [process, ns] : first_)
    begin = std::min(begin, static_cast<double>(ns) - static_cast<double>(job_.start));
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
    if (at == UINT32_MAX || t.parts[at].end <= first_.at(process)) {  // what is before is start-up
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
    const Slot& d = slots_[slot_of_[late]];
    if (now <= job_.start) {  // what was before is start-up
      begin = now;
      break;
    }
    const uint32_t next = d.queued ? d.queue : d.anchor == UINT32_MAX ? d.anchor : anchors_[d.anchor].slot;
    at = next == UINT32_MAX ? next : t.order[next];
    if (at != UINT32_MAX && t.parts[at].ts >= l.ts) break;
  }
  out.total_us = static_cast<double>(end - begin) / 1000;
  out.other_us = std::max(0.0, out.total_us - out.work_us - out.transfer_us);
  for (const auto& [p, us] : by_rank) out.ranks.push_back({job_.rankOf(p), us});
  for (const auto& [c, us] : by_comm) out.groups.push_back({t.comms[c].name, us});
  auto larger = [](const auto& a, const auto& b) { return a.us > b.us; };
  std::stable_sort(out.ranks.begin(), out.ranks.end(), larger);
  std::stable_sort(out.groups.begin(), out.groups.end(), larger);
  return out;
}

}  // namespace tracesmith::analysis
