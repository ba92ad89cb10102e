// The part of Collector for readers that may be killed at any moment: their state is stored with the rows.
#include "base/clock.hpp"
#include "capture/collect/collector.hpp"
#include "capture/collect/process.hpp"
#include "capture/collect/state_bytes.hpp"

namespace tracesmith::capture {
namespace {

constexpr uint32_t kStateVersion = 7;

/// An operation as it lies in the state.
struct StoredOperation {
  ring::Record record;
  int64_t tid;
  uint8_t mixed;
  uint32_t launch;
  uint64_t group;
};
static_assert(sizeof(StoredOperation) == 128);

StoredOperation stored(const NcclOperation& o) {
  StoredOperation s{};
  s.record = encode(o.record);
  s.tid = o.tid;
  s.mixed = o.mixed;
  s.launch = o.record.launch;
  s.group = o.group;
  return s;
}
NcclOperation restored(const StoredOperation& s) {
  NcclOperation o{operationOf(s.record), s.tid, s.mixed != 0, s.group};
  o.record.launch = s.launch;
  return o;
}

void putGraphs(Out& out, const GraphJoin& join) {
  for (uint64_t n : {join.lost, join.lone, join.hidden}) out.put(n);
  out.put(join.known);
  out.put<uint64_t>(join.launches.size());
  for (const GraphJoin::Launch& l : join.launches) {
    out.put(l.lane);
    out.put(l.tid);
    out.put(l.correlation ? *l.correlation + 1ull : 0ull);
    out.put<uint64_t>(l.parts.size());
    for (const GraphJoin::Part& p : l.parts) {
      out.put(encode(p.launch));
      out.put<uint64_t>(p.operations.size());
      for (const NcclOperation& o : p.operations) out.put(stored(o));
    }
  }
  out.put<uint64_t>(join.runs.size());
  for (const GraphJoin::Run& r : join.runs) {
    out.put(r.correlation);
    out.put(r.graph);
    out.put(r.start);
    out.put(r.whole ? encode(*r.whole) : ring::Record{});
    out.put<uint64_t>(r.kernels.size());
    for (const ring::KernelRecord& k : r.kernels) out.put(encode(k));
  }
  out.put<uint64_t>(join.calls.size());
  for (const ring::CallRecord& c : join.calls) out.put(encode(c));
  out.put<uint64_t>(join.last.size());
  for (const auto& l : join.last) out.put(l.first), out.put(l.second);
  out.put<uint64_t>(join.graphs.size());
  for (const auto& g : join.graphs) out.put(g.first), out.put(g.second);
}

void getGraphs(In& in, GraphJoin& join) {
  const uint64_t now = rawClock();
  for (uint64_t* n : {&join.lost, &join.lone, &join.hidden}) *n = in.get<uint64_t>();
  join.known = in.flag();
  for (uint64_t n = in.count(28); n > 0; --n) {
    GraphJoin::Launch l;
    l.since = now;
    l.lane = in.get<uint32_t>();
    l.tid = in.get<int64_t>();
    if (const auto correlation = in.get<uint64_t>()) l.correlation = static_cast<uint32_t>(correlation - 1);
    for (uint64_t m = in.count(72); m > 0; --m) {
      GraphJoin::Part& p = l.parts.emplace_back();
      p.launch = launchOf(in.get<ring::Record>());
      for (uint64_t k = in.count(sizeof(StoredOperation)); k > 0; --k)
        p.operations.push_back(restored(in.get<StoredOperation>()));
    }
    if (!l.parts.empty()) join.launches.push_back(std::move(l));
  }
  for (uint64_t n = in.count(88); n > 0; --n) {
    GraphJoin::Run& r = join.runs.emplace_back();
    r.since = now;
    r.correlation = in.get<uint32_t>();
    r.graph = in.get<uint32_t>();
    r.start = in.get<uint64_t>();
    if (const auto whole = in.get<ring::Record>(); whole.kind == ring::Kind::graph) r.whole = graphOf(whole);
    for (uint64_t k = in.count(64); k > 0; --k) r.kernels.push_back(kernelOf(in.get<ring::Record>()));
  }
  for (uint64_t n = in.count(64); n > 0; --n) join.calls.push_back(callOf(in.get<ring::Record>()));
  for (uint64_t n = in.count(28); n > 0; --n) {
    const auto stream = in.get<uint32_t>();
    join.last[stream] = in.get<GraphJoin::Joined>();
    join.last[stream].at = now;
  }
  for (uint64_t n = in.count(8); n > 0; --n) {
    const auto exec = in.get<uint32_t>();
    join.graphs[exec] = in.get<uint32_t>();
  }
}

void putJoin(Out& out, const NcclJoin& join) {
  for (uint64_t n : {join.gpu_on_ns, join.gpu_off_ns, join.lost, join.lone, join.doubted, join.hidden_copies})
    out.put(n);
  putGraphs(out, join.graphs);
  out.put<uint64_t>(join.lanes.size());
  for (const auto& [lane, last] : join.lanes) {
    out.put(lane);
    out.put(last.stream);
    out.put(last.launch_start);
    out.put(last.kernel ? encode(*last.kernel) : ring::Record{});
    out.put(last.captured);
    out.put(last.graph);
    out.put(last.group);
  }
  out.put<uint64_t>(join.captured.size());
  for (const NcclJoin::Operation& o : join.captured) out.put(encode(o.record));
  out.put<uint64_t>(join.held.size());
  for (const NcclJoin::Held& h : join.held) out.put(encode(h.kernel));
  out.put<uint64_t>(join.calls.size());
  for (const ring::CallRecord& c : join.calls) out.put(encode(c));
  out.put<uint64_t>(join.early.size());
  for (const NcclJoin::Early& e : join.early) out.put(stored(e.operation)), out.put(e.lane);
  out.put<uint64_t>(join.untold.size());
  for (const NcclJoin::Untold& u : join.untold)
    out.put(u.group), out.put(u.start), out.put(encode(u.kernel)), out.put(u.told);
  out.put<uint64_t>(join.streams.size());
  for (const auto& [id, stream] : join.streams) {
    out.put(id);
    for (uint64_t n : {stream.launch_start, stream.kernel_start}) out.put(n);
    out.put<uint64_t>(stream.launches.size());
    for (const NcclJoin::Launch& launch : stream.launches) {
      out.put(launch.start);
      out.put(launch.end);
      out.put(launch.lane);
      out.put(launch.tid);
      out.put(launch.group);
      out.put<uint64_t>(launch.correlations.size());
      for (uint32_t c : launch.correlations) out.put(c);
      out.put<uint64_t>(launch.operations.size());
      for (const NcclJoin::Operation& o : launch.operations) out.put(stored(o));
      out.put(launch.copies);
      out.put<uint64_t>(launch.copied.size());
      for (const ring::CopyRecord& c : launch.copied) out.put(encode(c));
    }
  }
}

void getJoin(In& in, NcclJoin& join) {
  for (uint64_t* n : {&join.gpu_on_ns, &join.gpu_off_ns, &join.lost, &join.lone, &join.doubted, &join.hidden_copies})
    *n = in.get<uint64_t>();
  getGraphs(in, join.graphs);
  for (uint64_t n = in.count(90); n > 0; --n) {
    NcclJoin::Lane& lane = join.lanes[in.get<uint32_t>()];
    lane.stream = in.get<uint32_t>();
    lane.launch_start = in.get<uint64_t>();
    if (const auto r = in.get<ring::Record>(); r.kind == ring::Kind::kernel) lane.kernel = kernelOf(r);
    lane.captured = in.flag();
    lane.graph = in.flag();
    lane.group = in.get<uint64_t>();
  }
  for (uint64_t n = in.count(64); n > 0; --n) join.captured.push_back({operationOf(in.get<ring::Record>())});
  const uint64_t now = rawClock();
  for (uint64_t n = in.count(64); n > 0; --n) join.held.push_back({kernelOf(in.get<ring::Record>()), now});
  for (uint64_t n = in.count(64); n > 0; --n) join.calls.push_back(callOf(in.get<ring::Record>()));
  for (uint64_t n = in.count(sizeof(StoredOperation) + 4); n > 0; --n) {
    const NcclOperation o = restored(in.get<StoredOperation>());
    join.early.push_back({o, in.get<uint32_t>(), now});
  }
  for (uint64_t n = in.count(81); n > 0; --n) {
    NcclJoin::Untold& u = join.untold.emplace_back();
    u.group = in.get<uint64_t>();
    u.start = in.get<uint64_t>();
    u.kernel = kernelOf(in.get<ring::Record>());
    u.told = in.flag();
  }
  for (uint64_t n = in.count(28); n > 0; --n) {
    NcclJoin::Stream& stream = join.streams[in.get<uint32_t>()];
    for (uint64_t* word : {&stream.launch_start, &stream.kernel_start}) *word = in.get<uint64_t>();
    stream.joined.push_back({stream.launch_start, now});
    for (uint64_t m = in.count(61); m > 0; --m) {
      NcclJoin::Launch launch;
      launch.start = in.get<uint64_t>();
      launch.end = in.get<uint64_t>();
      launch.lane = in.get<uint32_t>();
      launch.tid = in.get<int64_t>();
      launch.group = in.get<uint64_t>();
      for (uint64_t k = in.count(4); k > 0; --k) launch.correlations.push_back(in.get<uint32_t>());
      for (uint64_t k = in.count(sizeof(StoredOperation)); k > 0; --k)
        launch.operations.push_back(restored(in.get<StoredOperation>()));
      launch.copies = in.flag();
      for (uint64_t k = in.count(64); k > 0; --k) launch.copied.push_back(copyOf(in.get<ring::Record>()));
      launch.copied_at = launch.since = now;
      join.copies_waiting += launch.copies;
      stream.launches.push_back(std::move(launch));
    }
  }
}

void putTimes(Out& out, const NcclTimes& times) {
  out.put<uint64_t>(times.lanes.size());
  for (const auto& [lane, number] : times.lanes) out.put(lane), out.put(number);
  out.put<uint64_t>(times.times.size());
  for (const auto& [number, time] : times.times) out.put(encode(time));
  out.put<uint64_t>(times.waiting.size());
  for (const auto& [number, operations] : times.waiting) {
    out.put(number);
    out.put<uint64_t>(operations.size());
    for (const ring::OperationRecord& o : operations) out.put(encode(o));
  }
}

void getTimes(In& in, NcclTimes& times) {
  for (uint64_t n = in.count(8); n > 0; --n) {
    const auto lane = in.get<uint32_t>();
    times.lanes[lane] = in.get<uint32_t>();
  }
  for (uint64_t n = in.count(64); n > 0; --n) {
    const ring::LaunchTimeRecord time = launchTimeOf(in.get<ring::Record>());
    times.times[time.number] = time;
  }
  for (uint64_t n = in.count(12); n > 0; --n) {
    const auto number = in.get<uint32_t>();
    for (uint64_t k = in.count(64); k > 0; --k) {
      ring::OperationRecord o = operationOf(in.get<ring::Record>());
      o.launch = number;
      times.wait(o);
    }
  }
}

}  // namespace

Result<size_t> Collector::take() {
  size_t count = 0;
  tellRolesApart();
  for (auto& p : processes_) {
    p->ring->read(p->cursors, p->skipped,
                  [&](uint32_t lane, const ring::Record& r) { count += takeSince(*p, lane, r); });
    pass(*p);
  }
  stats_.records += count;
  if (!status_) return status_;
  return count;
}

std::string Collector::state() const {
  Out out;
  out.put(kStateVersion);
  out.put(since_ns_);
  out.put<uint64_t>(processes_.size());
  for (const auto& p : processes_) {
    out.text(p->ring->path());
    out.put(p->ring->header().start_ns);
    out.put(p->pid());
    out.put<uint64_t>(p->cursors.size());
    for (uint64_t c : p->cursors) out.put(c);
    out.put(p->skipped);
    out.put(p->skipped_told);
    out.put(p->losses_told);
    out.put(p->unjoined_told);
    out.put(p->graph_launches);
    out.put(p->hidden_told);
    out.put<uint64_t>(p->steps.size());
    for (const Process::Step& step : p->steps) out.put(step);
    out.put<uint64_t>(p->lane_tids.size());
    for (const auto& lane : p->lane_tids) out.put(lane.first), out.put(lane.second);
    putJoin(out, p->nccl);
    putTimes(out, p->times);
  }
  return out.take();
}

void Collector::restore(std::string_view state) {
  In in(state);
  if (in.get<uint32_t>() != kStateVersion) return;
  since_ns_ = in.get<uint64_t>();
  for (uint64_t left = in.count(16); left > 0 && in.ok(); --left) {
    auto p = std::make_unique<Process>();
    const std::string path = in.text();
    const auto start_ns = in.get<uint64_t>();
    p->last_pid = in.get<int64_t>();
    for (uint64_t n = in.count(8); n > 0; --n) p->cursors.push_back(in.get<uint64_t>());
    p->gpu_told = true;
    p->skipped = in.get<uint64_t>();
    p->skipped_told = in.get<uint64_t>();
    for (uint64_t& told : p->losses_told) told = in.get<uint64_t>();
    for (uint64_t& told : p->unjoined_told) told = in.get<uint64_t>();
    p->graph_launches = in.get<uint64_t>();
    p->hidden_told = in.flag();
    for (uint64_t n = in.count(sizeof(Process::Step)); n > 0; --n) p->steps.push_back(in.get<Process::Step>());
    for (uint64_t n = in.count(12); n > 0; --n) {
      const auto lane = in.get<uint32_t>();
      p->lane_tids[lane] = in.get<int64_t>();
    }
    getJoin(in, p->nccl);
    getTimes(in, p->times);
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!in.ok() || !reader || (*reader)->header().start_ns != start_ns)
      continue;  // gone, or replaced by another process's
    p->ring = std::move(*reader);
    p->node = nodeOf(p->ring->header());
    p->ring->attach();
    processes_.push_back(std::move(p));
    seen_.push_back(path);
    ++stats_.processes;
  }
}

void Collector::release() {
  for (auto& p : processes_) p->ring->release(p->cursors);
}

void Collector::leaveAttached() {
  for (auto& p : processes_) p->ring->leaveAttached();
}

void Collector::describe(Process& p) {
  const uint32_t role = p.ring->cut() ? p.role : p.ring->header().role.load();
  if ((!p.described || role != p.role) && !p.ring->cut()) processRow(p);
  p.described = true;
  lossRows(p);
  watchRow(p);
}

Status Collector::describe() {
  for (auto& p : processes_) describe(*p);
  return status_;
}

Status Collector::flush() {
  TS_TRY(status_);
  return out_->flush();
}

double Collector::held() const {
  double most = 0;
  for (const auto& p : processes_) most = std::max(most, p->ring->held(p->cursors));
  return most;
}

std::vector<std::string> Collector::dropEnded() {
  std::vector<std::string> dropped;
  std::erase_if(processes_, [&](const std::unique_ptr<Process>& p) {
    if (p->ring->alive() || !p->ended) {
      p->ended = !p->ring->alive();  // its last records are taken once more after it was seen dead
      return false;
    }
    giveUp(*p);
    describe(*p);  // what it lost since the last time, too
    dropped.push_back(p->ring->path());
    return true;
  });
  return dropped;
}

}  // namespace tracesmith::capture
