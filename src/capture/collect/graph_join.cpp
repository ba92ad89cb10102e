#include "capture/collect/graph_join.hpp"

#include <algorithm>
#include <utility>

namespace tracesmith::capture {

using ring::CallRecord;
using ring::GraphRecord;
using ring::KernelRecord;
using ring::LaunchRecord;

namespace {

constexpr uint64_t kKeepCallsNs = 10'000'000;  // a call may be read so much before the launch around it
constexpr size_t kMostCalls = 65536;

using Kernels = std::vector<const KernelRecord*>;

/// The kernel of each part, with the kernels in this order of the kernels; nullptr: none fits. `found`: how many parts
/// have one.
Kernels assign(const std::vector<GraphJoin::Part>& parts, const Kernels& kernels, const RingText& text, size_t& found) {
  Kernels out(parts.size(), nullptr);
  found = 0;
  auto ok = [&](const GraphJoin::Part& p, const KernelRecord& k) { return fits(p.operations, text(k.name), text); };
  if (kernels.size() == parts.front().launch.parts) {  // each in its place
    for (size_t i = 0; i < parts.size(); ++i)
      if (const uint32_t at = parts[i].launch.part; at < kernels.size() && ok(parts[i], *kernels[at])) {
        out[i] = kernels[at];
        ++found;
      }
    return out;
  }
  std::vector<bool> taken(kernels.size());
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t k = 0; k < kernels.size(); ++k)
      if (!taken[k] && !parts[i].launch.copies && ok(parts[i], *kernels[k])) {
        taken[k] = true;
        out[i] = kernels[k];
        ++found;
        break;
      }
  return out;
}

/// Nodes are numbered in the order they were captured; kernels of several streams may run in another.
Kernels assign(const std::vector<GraphJoin::Part>& parts, const std::vector<KernelRecord>& kernels,
               const RingText& text, size_t& found) {
  Kernels by_node;
  for (const KernelRecord& k : kernels) by_node.push_back(&k);
  Kernels by_time = by_node;
  std::stable_sort(by_node.begin(), by_node.end(), [](auto* a, auto* b) { return a->graph_node < b->graph_node; });
  std::stable_sort(by_time.begin(), by_time.end(), [](auto* a, auto* b) { return a->start < b->start; });
  size_t found_by_time = 0;
  Kernels out = assign(parts, by_node, text, found);
  if (Kernels other = assign(parts, by_time, text, found_by_time); found_by_time > found) {
    found = found_by_time;
    return other;
  }
  return out;
}

}  // namespace

size_t GraphJoin::Launch::operations() const {
  size_t n = 0;
  for (const Part& p : parts) n += p.operations.size();
  return n;
}

void GraphJoin::launch(uint32_t lane, const LaunchRecord& r, int64_t tid, uint64_t now) {
  known = true;
  first_launch_ = std::min(first_launch_, r.start);
  auto at = launches.end();
  while (at != launches.begin() && std::prev(at)->record().start > r.start) --at;  // lanes are read one after the other
  if (at != launches.begin() && std::prev(at)->lane == lane && std::prev(at)->record().start == r.start) {
    std::prev(at)->parts.push_back({r, {}});
    return;
  }
  launches.insert(at, {{{r, {}}}, lane, tid, {}, now});
}

void GraphJoin::operation(uint32_t lane, const ring::OperationRecord& r, int64_t tid) {
  for (auto l = launches.rbegin(); l != launches.rend(); ++l)
    if (l->lane == lane && l->record().start == r.start) return l->parts.back().operations.push_back({r, tid});
}

/// The last launch before a call on its thread is its own.
bool GraphJoin::take(const CallRecord& c) {
  for (auto l = launches.rbegin(); l != launches.rend(); ++l) {
    if (l->record().start > c.start || (l->tid != 0 && l->tid != c.thread)) continue;
    if (!l->correlation) l->correlation = c.correlation;  // the driver's call is within that of the runtime
    return true;
  }
  return false;
}

void GraphJoin::call(const CallRecord& c) {
  newest_call_ = std::max(newest_call_, c.end);
  calls.push_back(c);
  if (calls.size() > kMostCalls) calls.pop_front();
}

GraphJoin::Run& GraphJoin::runOf(uint32_t correlation, uint32_t graph, uint64_t start, uint64_t now) {
  auto found = std::find_if(runs.rbegin(), runs.rend(),
                            [&](const Run& r) { return r.correlation == correlation && r.graph == graph; });
  Run& run = found == runs.rend() ? runs.emplace_back(Run{correlation, graph, start, now, {}, {}}) : *found;
  run.start = std::min(run.start, start);
  run.since = now;
  return run;
}

void GraphJoin::run(const GraphRecord& r, uint64_t now) { runOf(r.correlation, r.graph, r.start, now).whole = r; }

void GraphJoin::kernel(const KernelRecord& r, uint64_t now) {
  runOf(r.correlation, r.graph, r.start, now).kernels.push_back(r);
}

/// Whether this can be the run of this launch, by order alone.
bool GraphJoin::possible(const Launch& l, const Run& run, const JoinTime& time, const RingText& text) const {
  const LaunchRecord& r = l.record();
  if (l.correlation || r.start > run.start || !time.recorded(r.start, r.end)) return false;
  const uint32_t stream = run.whole ? run.whole->stream : 0;
  if (run.whole && r.stream != 0 && r.stream != stream) return false;
  if (!run.whole && r.parts == 0) return false;
  if (auto before = last.find(r.stream);
      before != last.end() && (run.start >= before->second.run_start ? r.start <= before->second.launch_start
                                                                     : r.start >= before->second.launch_start))
    return false;
  if (r.exec != 0) {
    if (auto graph = graphs.find(r.exec); graph != graphs.end()) {
      if (graph->second != run.graph) return false;
    } else if (std::any_of(graphs.begin(), graphs.end(), [&](const auto& g) { return g.second == run.graph; })) {
      return false;
    }
  }
  if (run.whole) return true;
  size_t found = 0;
  assign(l.parts, run.kernels, text, found);
  return found > 0;
}

bool GraphJoin::isLatest(const Run& run) const {
  return std::none_of(runs.begin(), runs.end(), [&](const Run& r) { return r.start > run.start; });
}

void GraphJoin::hide(const Launch& l, const KernelRecord* within, const NcclDone& done) {
  for (const Part& p : l.parts)
    for (NcclOperation o : p.operations) {
      o.hidden = true;
      ++hidden;
      done(o, within);
    }
}

void GraphJoin::finish(size_t index, const Run& run, const JoinTime& time, const RingText& text, const NcclDone& done) {
  const Launch l = std::move(launches[index]);
  launches.erase(launches.begin() + static_cast<std::ptrdiff_t>(index));
  const LaunchRecord& r = l.record();
  if (Joined& j = last[r.stream]; r.start >= j.launch_start) j = {r.start, run.start, time.now};
  if (r.exec != 0) graphs[r.exec] = run.graph;
  if (run.whole) {
    const GraphRecord& w = *run.whole;
    const KernelRecord within{.name = w.name,
                              .start = w.end,
                              .end = w.end,
                              .device = w.device,
                              .stream = w.stream,
                              .correlation = w.correlation,
                              .context = w.context,
                              .graph = w.graph};
    return hide(l, &within, done);
  }
  const bool open = run.kernels.size() < r.parts && isLatest(run);  // the others may run yet
  size_t found = 0;
  const Kernels kernels = assign(l.parts, run.kernels, text, found);
  for (size_t i = 0; i < l.parts.size(); ++i) {
    const Part& part = l.parts[i];
    const auto mixed = [&](const NcclOperation& o) {
      const ring::OperationRecord &a = o.record, &b = part.operations.front().record;
      return a.pair != b.pair || a.comm != b.comm || a.peer != b.peer;
    };
    const bool is_mixed = std::any_of(part.operations.begin(), part.operations.end(), mixed);
    for (NcclOperation o : part.operations) {
      o.mixed = is_mixed;
      o.hidden = part.launch.copies;
      if (!o.hidden && !kernels[i]) ++(open ? open_ : lost);
      hidden += o.hidden;
      done(o, kernels[i]);
    }
  }
}

/// Gives up launches that later ones of their stream have overtaken a while ago, and those nobody recorded the GPU of.
void GraphJoin::passOver(const JoinTime& time, const NcclDone& done) {
  std::erase_if(launches, [&](const Launch& l) {
    const LaunchRecord& r = l.record();
    if (!time.recorded(r.start, r.end)) {
      if (r.end >= time.gpu_on_ns && !time.waited(l.since)) return false;  // that it is recorded again may come yet
      for (const Part& p : l.parts)
        for (const NcclOperation& o : p.operations) done(o, nullptr);
      return true;
    }
    auto before = last.find(r.stream);
    if (before == last.end() || r.start >= before->second.launch_start || !time.waited(before->second.at)) return false;
    lost += l.operations();
    hide(l, nullptr, done);
    hidden -= l.operations();
    return true;
  });
}

void GraphJoin::pass(const JoinTime& time, const RingText& text, const NcclDone& done) {
  // All that was there has been read: launches before calls, where they were.
  std::stable_sort(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  std::erase_if(calls, [&](const CallRecord& c) {
    return take(c) || time.now == UINT64_MAX || c.end + kKeepCallsNs < newest_call_;
  });
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.start < b.start; });
  uint64_t until = 0;  // one that has waited long enough takes those that began before it along
  for (const Run& r : runs)
    if (time.waited(r.since)) until = std::max(until, r.start);
  std::erase_if(runs, [&](const Run& run) {
    const bool waited = run.start <= until;
    auto l = std::find_if(launches.begin(), launches.end(),
                          [&](const Launch& x) { return x.correlation == run.correlation; });
    if (l == launches.end()) {
      if (!waited) return false;
      l = std::find_if(launches.begin(), launches.end(), [&](const Launch& x) { return possible(x, run, time, text); });
    }
    if (l == launches.end()) {
      if (run.start >= first_launch_) lone += run.kernels.size();
      return true;
    }
    const bool partly = !run.whole && run.kernels.size() < l->record().parts;
    if (partly && (!waited || (time.now != UINT64_MAX && isLatest(run)))) return false;
    finish(static_cast<size_t>(l - launches.begin()), run, time, text, done);
    return true;
  });
  passOver(time, done);
}

size_t GraphJoin::giveUp(const NcclDone& done) {
  size_t in_flight = std::exchange(open_, 0);
  for (const Launch& l : launches) {
    if (!graphs.contains(l.record().exec)) {
      hide(l, nullptr, done);
      continue;
    }
    in_flight += l.operations();
    for (const Part& p : l.parts)
      for (const NcclOperation& o : p.operations) done(o, nullptr);
  }
  launches.clear();
  return in_flight;
}

std::vector<GraphJoin::InFlight> GraphJoin::inFlight(const JoinTime& time, const RingText& text) const {
  std::vector<InFlight> all;
  std::map<uint32_t, size_t> waiting;  // runs that have not found their launch yet
  for (const Run& r : runs)
    if (r.whole) ++waiting[r.whole->stream];
  for (const Launch& l : launches) {
    const LaunchRecord& r = l.record();
    auto before = last.find(r.stream);
    const bool overtaken = before != last.end() && r.start < before->second.launch_start;
    if (!time.recorded(r.start, r.end) || overtaken || !graphs.contains(r.exec)) continue;
    auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& x) {
      return x.correlation == l.correlation || (!l.correlation && !x.whole && possible(l, x, time, text));
    });
    Kernels kernels(l.parts.size(), nullptr);
    size_t found = 0;
    if (run != runs.end() && run->whole) continue;
    if (run != runs.end()) kernels = assign(l.parts, run->kernels, text, found);
    if (size_t& n = waiting[r.stream]; run == runs.end() && n > 0) {
      --n;
      continue;
    }
    for (size_t i = 0; i < l.parts.size(); ++i)
      for (const NcclOperation& o : l.parts[i].operations)
        if (!kernels[i]) all.push_back({&o, r.stream, r.start});
  }
  return all;
}

}  // namespace tracesmith::capture
