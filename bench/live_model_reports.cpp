// What the nodes of the modelled job report.
#include "live_model.hpp"

namespace tracesmith::bench {

std::vector<LiveModel::Due> LiveModel::until(int64_t t) {
  std::vector<Due> due;
  for (size_t n = 0; n < next_report_.size(); ++n)
    while (next_report_[n] < t) {
      const int64_t at = next_report_[n];
      next_report_[n] += kS + static_cast<int64_t>((random_.uniform() - 0.5) * 1e8);
      while (horizon_ <= at) simulateStep();
      bool silent = false;
      for (const ModelFault& f : config_.faults)
        silent |= f.kind == ModelFault::silent_node && static_cast<size_t>(nodeOf(f.rank)) == n && stalled_ns_ <= at;
      if (silent) continue;
      Due d;
      d.at_ns = at + 2 * kMs;
      d.report.node = "node" + std::to_string(n);
      for (int r = static_cast<int>(n) * config_.per_node;
           r < std::min(config_.ranks(), static_cast<int>(n + 1) * config_.per_node); ++r)
        d.report.processes.push_back(report(r, at));
      due.push_back(std::move(d));
    }
  std::sort(due.begin(), due.end(), [](const Due& a, const Due& b) { return a.at_ns < b.at_ns; });
  size_t oldest = SIZE_MAX;
  for (const Reader& reader : readers_) oldest = std::min(oldest, reader.step);
  while (first_step_ < oldest && !steps_.empty()) {
    steps_.pop_front();
    ++first_step_;
  }
  return due;
}

/// The operation its GPU is at.
size_t LiveModel::position(int rank, int64_t t, const StepData& data) const {
  const std::vector<Span>& spans = data.spans[static_cast<size_t>(rank)];
  size_t at = 0;
  while (at < spans.size() && spans[at].end <= t) ++at;
  return at;
}

/// CUPTI hands a buffer over when all in it have ended: what stands still keeps the end of those before it.
bool LiveModel::isHeld(int rank, int64_t t, const StepData& data, size_t op) const {
  return stalled_ns_ <= t && &data == &steps_.back() &&
         op + held_[static_cast<size_t>(rank)] >= position(rank, t, data);
}

ProcessReport LiveModel::report(int rank, int64_t t) {
  const auto r = static_cast<size_t>(rank);
  Reader& reader = readers_[r];
  const std::vector<Op>& ops = program(rank);
  ProcessReport p;
  p.pid = 1000 + rank;
  p.rank = rank;
  p.world_size = config_.ranks();
  p.local_rank = rank % config_.per_node;
  p.simulated = true;
  for (int g = 0; g < kGroups; ++g) {
    const Comm& comm = comms_[{g, groupIndex(rank, static_cast<Group>(g))}];
    if (comm.size > 1) {
      analysis::live::CommState c;
      c.comm = comm.hash;
      c.name = comm.name;
      c.group_rank = groupRank(rank, static_cast<Group>(g));
      c.size = comm.size;
      p.comms.push_back(std::move(c));
    }
  }
  auto commOf = [&](const Op& op) -> analysis::live::CommState* {
    const uint64_t hash = comms_[{op.group, groupIndex(rank, op.group)}].hash;
    for (analysis::live::CommState& c : p.comms)
      if (c.comm == hash) return &c;
    return nullptr;
  };
  const StepData* data = nullptr;
  while (reader.step - first_step_ < steps_.size()) {
    data = &steps_[reader.step - first_step_];
    if (reader.op == ops.size()) {
      const Span& last = data->spans[r].back();
      if (last.end > t) break;
      p.steps.push_back({data->step, last.end - data->start[r], reader.comm_ns});
      reader.comm_ns = 0;
      reader.op = 0;
      ++reader.step;
      continue;
    }
    const Span& span = data->spans[r][reader.op];
    if (span.end > t || isHeld(rank, t, *data, reader.op)) break;
    const Op& op = ops[reader.op];
    reader.last_end = span.end;
    ++p.activity;
    if (op.kind >= kCollective) {
      const int64_t ns = span.end - span.enter;
      reader.comm_ns += ns;
      p.longest_wait_ns = std::max(p.longest_wait_ns, ns);
      analysis::live::OpProgress& progress = reader.progress[{op.group, op.name, op.peer}];
      progress.op = op.name;
      progress.peer = op.peer;
      progress.completed = progress.entered = static_cast<uint64_t>(data->step) * op.per_step + op.seq;
      analysis::live::CommState* c = commOf(op);
      if (c) {
        auto same = std::find_if(c->transfers.begin(), c->transfers.end(), [&](const auto& x) {
          return x.op == op.name && x.bytes == op.bytes && x.peer == op.peer;
        });
        if (same == c->transfers.end()) same = c->transfers.insert(same, {op.name, op.bytes, 0, ns, 0, op.peer});
        ++same->count;
        same->shortest_ns = std::min(same->shortest_ns, ns);
        same->total_ns += ns;
      }
    }
    ++reader.op;
  }
  if (data && reader.step - first_step_ < steps_.size()) {
    data = &steps_[reader.step - first_step_];
    p.step = data->step;
    p.step_age_ns = t - data->start[r];
    addInFlight(rank, t, *data, reader.op, p);
    if (reader.op < ops.size() && ops[reader.op].kind == kHost && saves(rank, data->step)) {
      p.cpu_share = 0.2;
      p.io_bytes_per_s = 3e8;
    }
  }
  for (auto& [key, progress] : reader.progress)
    for (size_t i = 0; i < p.comms.size(); ++i)
      if (p.comms[i].comm == comms_[{std::get<0>(key), groupIndex(rank, static_cast<Group>(std::get<0>(key)))}].hash) {
        analysis::live::OpProgress now = progress;
        for (const InFlight& f : p.in_flight)
          if (f.comm == p.comms[i].comm && f.op == now.op && f.peer == now.peer)
            now.entered = std::max(now.entered, f.seq);
        p.comms[i].ops.push_back(std::move(now));
      }
  for (const ModelFault& f : config_.faults)
    if (f.rank == rank && culprits_.contains(rank) && reader.op < ops.size() && data &&
        data->spans[r][reader.op].enter == kNever) {
      if (f.kind == ModelFault::stopped) p.state = ProcessState::stopped;
      if (f.kind == ModelFault::died) p.state = ProcessState::dead;
    }
  return p;
}

/// What the GPU is at, and what the host has launched beyond it.
void LiveModel::addInFlight(int rank, int64_t t, const StepData& data, size_t at, ProcessReport& p) const {
  const auto r = static_cast<size_t>(rank);
  const std::vector<Op>& ops = program(rank);
  const Reader& reader = readers_[r];
  auto where = elsewhere_.find(rank);
  auto commOf = [&](const Op& op) { return comms_.at({op.group, groupIndex(rank, op.group)}).hash; };
  auto streamOf = [&](const Op& op) { return config_.stream_per_comm ? 20u + static_cast<uint32_t>(op.group) : 20u; };
  const size_t now = std::max(at, position(rank, t, data));
  const bool in_other =
      where != elsewhere_.end() && where->second.second <= t && now < ops.size() && &ops[now] == where->second.first;
  const int64_t since = in_other ? where->second.second : reader.last_end;
  const bool computing = now < ops.size() && ops[now].kind == kCompute && data.spans[r][now].enter <= t;
  p.quiet_ns = computing ? std::min<int64_t>(t - since, 5 * kMs) : t - since;
  std::map<uint32_t, uint32_t> launched;  // by stream
  const size_t last = std::min(ops.size(), now + 1 + static_cast<size_t>(config_.ahead));
  for (size_t i = at; i < last; ++i) {
    const Op& op = ops[i];
    const Span& span = data.spans[r][i];
    const bool differs = in_other && i == now;
    if (faultOf(rank, data.step, i) && !differs) break;  // never launched
    if (span.enter == kNever && culprits_.contains(rank) && !differs) break;
    if (op.kind == kHost && saves(rank, data.step)) break;  // the host is busy
    if (op.kind < kCollective) continue;
    InFlight f;
    f.op = op.name;
    f.comm = commOf(op);
    f.seq = static_cast<uint64_t>(data.step) * op.per_step + op.seq;
    f.bytes = op.bytes;
    f.peer = op.kind == kCollective ? -1 : op.peer;
    f.stream = streamOf(op);
    f.before = launched[f.stream]++;
    f.age_ns = t - reader.last_end - static_cast<int64_t>(i - at) * 1000;
    f.wait_ns = f.before == 0 ? t - reader.last_end : 0;
    if (differs) {
      const ModelFault* fault = faultOf(rank, data.step, i);
      if (fault && fault->kind == ModelFault::other_size) f.bytes /= 2;
      if (fault && fault->kind == ModelFault::other_op) f.op = f.op == "all_gather" ? "all_reduce" : "all_gather";
    }
    p.in_flight.push_back(std::move(f));
    if (differs) break;
  }
}

}  // namespace tracesmith::bench
