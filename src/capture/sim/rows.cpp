#include "capture/sim/rows.hpp"

#include <algorithm>

#include "base/parallel.hpp"

namespace tracesmith::sim {

using trace::EventType;
using trace::kNull;

int64_t pidOf(const Job& job, int rank) { return 4000 + rank % job.config().gpus_per_node * 151; }

std::string groupName(const Job& job, Group group, int id) {
  const std::string n = std::to_string(id);
  switch (group) {
    case Group::world:
      return "world";
    case Group::node:
      return job.config().laidOut() ? "tp" + n : "node" + n + "-tp";
    case Group::data:
      return "dp" + n;
    default:
      return "pp" + n;
  }
}

JobStrings::JobStrings(const Job& job, trace::Writer& w) {
  for (int n = 0; n < job.nodes(); ++n) {
    nodes.push_back(w.string("node" + std::to_string(n)));
  }
  for (const KernelModel& k : job.kernels()) {
    kernels.push_back(w.string(k.name));
    shapes.push_back(w.launch(k.shape));
    if (job.config().faults.other_gpus.empty()) continue;
    // Libraries have kernels of their own for each generation of GPUs.
    const size_t generation = k.name.find("sm90");
    other_kernels.push_back(generation == k.name.npos ? kernels.back()
                                                      : w.string(std::string(k.name).replace(generation, 4, "sm75")));
  }
  for (const std::string& s : job.cpuOps()) cpu_ops.push_back(w.string(s));
  for (const char* s : kApiNames) apis.push_back(w.string(s));
  for (const char* s : kRangeNames) ranges.push_back(w.string(s));
  for (const std::string& s : job.collectiveKernels()) collective_kernels.push_back(w.string(s));
  collective_shape = w.launch(kCollectiveShape);
  for (int g = 0; g < kGroups; ++g)
    for (int id = 0; id < job.groupCount(static_cast<Group>(g)); ++id)
      if (job.perStep(static_cast<Group>(g)) > 0 || g == 1)
        comms[g].push_back(w.string(groupName(job, static_cast<Group>(g), id)));
  for (const char* s : kCopyNames) copies.push_back(w.string(s));
  memset = w.string("Memset (Device)");
  for (const CollectiveModel& c : job.collectives()) ops.push_back(w.string(c.op));
  dtype = w.string("bfloat16");
  algo = w.string("ring");
  proto = w.string("LL");
  power = w.string("gpu_power_watts");
  clock = w.string("gpu_sm_clock_mhz");
  utilization = w.string("gpu_utilization_percent");
  watt = w.string("W");
  mhz = w.string("MHz");
  percent = w.string("%");
}

JobRows::JobRows(const Job& job) : job_(job), states_(static_cast<size_t>(job.config().ranks)) {
  // As many steps as fill a block, and not more than 32 MB of collectives.
  const size_t per_step = job.collectives().size() * states_.size() * sizeof(CollectiveTime);
  max_window_ =
      static_cast<int>(std::clamp<size_t>((32u << 20) / per_step, 1, std::max<uint64_t>(1, 50000 / job.rowsPerStep())));
  for (int r = 0; r < job.config().ranks; ++r) {
    Random random(job.config().seed * 31 + static_cast<uint64_t>(r));
    states_[static_cast<size_t>(r)].host = static_cast<int64_t>(random.next() % 3'000'000);  // not all start at once
  }
}

bool JobRows::nextWindow(size_t threads) {
  first_step_ += window_steps_;
  window_steps_ = std::min(max_window_, job_.steps() - first_step_);
  if (window_steps_ <= 0) return false;
  window_states_ = states_;
  const auto ranks = static_cast<size_t>(job_.config().ranks);
  const size_t collectives = job_.collectives().size();
  times_.assign(static_cast<size_t>(window_steps_), {});
  step_start_.resize(static_cast<size_t>(window_steps_) * ranks);
  step_end_.resize(step_start_.size());
  const Sink nothing = [](const SimEvent&) {};
  std::vector<Random> random(ranks, Random(0));
  for (int step = first_step_; step < lastStep(); ++step) {
    std::vector<CollectiveTime>& times = times_[static_cast<size_t>(step - first_step_)];
    times.resize(ranks * collectives);
    for (size_t r = 0; r < ranks; ++r) {
      step_start_[index(step, static_cast<int>(r))] = states_[r].host;
      random[r] = job_.stepRandom(static_cast<int>(r), step);
    }
    job_.simulateStep(step, states_, times, [&](int, int first, int last, const RankPart& part) {
      parallelFor(static_cast<size_t>(last - first), threads, [&](size_t i, size_t) {
        const size_t r = static_cast<size_t>(first) + i;
        part(static_cast<int>(r), states_[r], &times[r * collectives], random[r], nothing);
      });
    });
    for (size_t r = 0; r < ranks; ++r) step_end_[index(step, static_cast<int>(r))] = states_[r].host;
  }
  return true;
}

void JobRows::events(int rank, const std::function<void(const SimEvent&, int)>& sink) const {
  RankState state = window_states_[static_cast<size_t>(rank)];
  for (int step = first_step_; step < lastStep(); ++step) {
    uint64_t left = quota(step, rank);
    job_.replayStep(rank, step, state, &collective(step, rank, 0), [&](const SimEvent& e) {
      if (left == 0) return;
      --left;
      sink(e, step);
    });
  }
}

uint64_t JobRows::quota(int step, int rank) const {
  const uint64_t full = job_.rowsPerStep();
  const uint64_t before =
      (static_cast<uint64_t>(step) * static_cast<uint64_t>(job_.config().ranks) + static_cast<uint64_t>(rank)) * full;
  return std::min(full, job_.config().events - std::min(before, job_.config().events));
}

EventRows::EventRows(const Job& job, const JobStrings& strings, int rank)
    : strings_(strings),
      kernels_(job.modelFactor(rank) != 1 ? strings.other_kernels : strings.kernels),
      clock_(job.clock(job.nodeOf(rank))),
      node_(strings.nodes[static_cast<size_t>(job.nodeOf(rank))]),
      rank_(rank),
      pid_(pidOf(job, rank)),
      device_(rank % job.config().gpus_per_node) {}

trace::EventRow EventRows::base(int64_t start, int64_t end, int step) const {
  trace::EventRow row;
  row.ts = clock_.toRaw(start);
  row.dur = clock_.toRaw(end) - row.ts;
  row.node = node_;
  row.rank = rank_;
  row.pid = pid_;
  row.step = step;
  return row;
}

trace::EventRow EventRows::row(const SimEvent& e, int step) const {
  trace::EventRow row = base(e.start, e.end, step);
  row.type = static_cast<int64_t>(e.type);
  row.correlation = e.correlation;
  row.bytes = e.bytes;
  if (trace::isDeviceType(e.type)) {
    row.device = device_;
    row.stream = e.collective ? 24 + e.stream : e.type == EventType::kernel ? 7 : 14;
  } else {
    row.tid = e.backward_thread ? pid_ + 64 : pid_;
  }
  switch (e.type) {
    case EventType::kernel:
      row.name = e.collective ? strings_.collective_kernels[e.name] : kernels_[e.name];
      row.launch = e.collective ? strings_.collective_shape : strings_.shapes[e.name];
      break;
    case EventType::memcpy:
      row.name = strings_.copies[e.name];
      break;
    case EventType::memset:
      row.name = strings_.memset;
      break;
    case EventType::cpu_op:
      row.name = strings_.cpu_ops[e.name];
      break;
    case EventType::annotation:
      row.name = strings_.ranges[e.name];
      break;
    default:
      row.name = strings_.apis[e.name];
      break;
  }
  return row;
}

trace::EventRow EventRows::stepRow(int64_t start, int64_t end, int step, int64_t name) const {
  trace::EventRow row = base(start, end, step);
  row.type = static_cast<int64_t>(EventType::annotation);
  row.name = name;
  row.tid = pid_;
  return row;
}

}  // namespace tracesmith::sim
