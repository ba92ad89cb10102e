// What a rank's host thread and GPU do in a step.
#include <algorithm>
#include <iterator>

#include "capture/sim/job.hpp"

namespace tracesmith::sim {

void Job::simulateStep(int step, std::vector<RankState>& states, std::vector<CollectiveTime>& times,
                       const Run& run) const {
  const int ranks = config_.ranks;
  const size_t last = collectives_.size() - 1;
  if (config_.laidOut()) {
    simulateSegments(step, states, times, run);
    settle(step, static_cast<size_t>(3 * segments()), last, states, times);
  } else if (config_.sharded) {
    for (int phase = 0; phase < phases(); ++phase) {
      run(0, 0, ranks, [&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
        gatherPart(phase, r, step, s, t, random, sink);
      });
      if (phase == 0) settle(step, gathers_[0], gathers_[0] + 1, states, times);
      const auto next = static_cast<size_t>(phase) + 1;
      if (next < gathers_.size()) settle(step, gathers_[next], gathers_[next] + 1, states, times);
      run(0, 0, ranks, [&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
        layerPart(phase, r, step, s, t, random, sink);
      });
      if (const size_t k = scatters_[next - 1]) settle(step, k, k + 1, states, times);
    }
  } else {
    run(0, 0, ranks, [&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
      computePart(r, step, s, t, random, sink);
    });
    settle(step, 0, last, states, times);
  }
  run(1, 0, ranks, [&](int r, RankState& s, CollectiveTime* t, Random& random, const Sink& sink) {
    optimizerPart(r, step, s, t, random, sink);
  });
  settle(step, last, last + 1, states, times);
  run(2, 0, ranks,
      [&](int r, RankState& s, CollectiveTime* t, Random&, const Sink& sink) { endPart(r, step, s, t, sink); });
}

void Job::replayStep(int rank, int step, RankState& state, const CollectiveTime* settled, const Sink& sink) const {
  Random random = stepRandom(rank, step);
  // The parts write ready times, settled already: they get a copy to write to.
  std::vector<CollectiveTime> times(settled, settled + collectives_.size());
  if (config_.laidOut())
    for (int k : segmentOrder(stageOf(rank))) {
      receivePart(k, rank, step, state, times.data(), random, sink);
      segmentPart(k, rank, step, state, times.data(), random, sink);
      sendPart(k, rank, state, times.data(), random, sink);
    }
  else if (config_.sharded)
    for (int phase = 0; phase < phases(); ++phase) {
      gatherPart(phase, rank, step, state, times.data(), random, sink);
      layerPart(phase, rank, step, state, times.data(), random, sink);
    }
  else
    computePart(rank, step, state, times.data(), random, sink);
  for (size_t k = 0; k + 1 < collectives_.size(); ++k)
    if (takesPart(rank, collectives_[k])) state.comm[queueOf(collectives_[k])] = settled[k].end;
  optimizerPart(rank, step, state, times.data(), random, sink);
  if (takesPart(rank, collectives_.back())) state.comm[0] = settled[times.size() - 1].end;
  endPart(rank, step, state, settled, sink);
}

void Job::launchComm(size_t model, RankState& s, CollectiveTime* times, Random& random, const Sink& sink) const {
  const uint64_t r = random.next();
  const int64_t launch = s.host + 400 + static_cast<int64_t>(r >> 8 & 511);
  const auto api_ns = static_cast<int64_t>(3600 * random.noise());
  CollectiveTime& c = times[model];
  c.correlation = s.correlation++;
  c.enqueue = launch;
  c.called = launch + api_ns;
  sink(SimEvent{trace::EventType::runtime, kLaunchKernel, launch, launch + api_ns, c.correlation, trace::kNull, false,
                false});
  s.host = launch + api_ns + 700;
  c.ready = launch + api_ns + 900;
  if (!collectives_[model].receives()) c.ready = std::max(c.ready, s.compute + 650);  // a receive waits for nothing
}

void Job::beLate(int rank, int step, RankState& s) const {
  if (rank == config_.faults.late_rank && step >= config_.faults.from_step)
    s.host += static_cast<int64_t>(config_.faults.late_ms * 1e6);
}

void Job::gatherPart(int phase, int rank, int step, RankState& s, CollectiveTime* times, Random& random,
                     const Sink& sink) const {
  if (phase == 0) {
    beLate(rank, step, s);
    launchComm(gathers_[0], s, times, random, sink);
  }
  const auto next = static_cast<size_t>(phase) + 1;
  if (next < gathers_.size()) launchComm(gathers_[next], s, times, random, sink);
}

void Job::layerPart(int phase, int rank, int step, RankState& s, CollectiveTime* times, Random& random,
                    const Sink& sink) const {
  const auto p = static_cast<size_t>(phase);
  s.compute = std::max(s.compute, times[gathers_[p]].end);
  const bool backward = phase >= layers_;
  const int64_t begin = s.host;
  const auto [first, last] = segmentOps(phase);
  runOps(first, last, rank, step, backward, s, times, random, sink);
  sink(SimEvent{trace::EventType::annotation, backward ? kBackward : kForward, begin, s.host, trace::kNull,
                trace::kNull, false, false});
  if (scatters_[p]) launchComm(scatters_[p], s, times, random, sink);
}

void Job::receivePart(int segment, int rank, int step, RankState& s, CollectiveTime* times, Random& random,
                      const Sink& sink) const {
  if (segment == 0) beLate(rank, step, s);
  const size_t model = segmentModel(segment, 0);
  if (takesPart(rank, collectives_[model])) launchComm(model, s, times, random, sink);
}

void Job::segmentPart(int segment, int rank, int step, RankState& s, CollectiveTime* times, Random& random,
                      const Sink& sink) const {
  const size_t receive = segmentModel(segment, 0), tensor = segmentModel(segment, 1);
  if (takesPart(rank, collectives_[receive])) s.compute = std::max(s.compute, times[receive].end);
  const bool back = backward(segment);
  const int64_t begin = s.host;
  const auto [first, last] = segmentOps(segment);
  runOps(first, last, rank, step, back, s, times, random, sink);
  sink(SimEvent{trace::EventType::annotation, back ? kBackward : kForward, begin, s.host, trace::kNull, trace::kNull,
                false, false});
  if (takesPart(rank, collectives_[tensor])) launchComm(tensor, s, times, random, sink);
}

void Job::sendPart(int segment, int rank, RankState& s, CollectiveTime* times, Random& random, const Sink& sink) const {
  const size_t tensor = segmentModel(segment, 1), send = segmentModel(segment, 2);
  if (takesPart(rank, collectives_[tensor])) s.compute = std::max(s.compute, times[tensor].end);
  if (takesPart(rank, collectives_[send])) launchComm(send, s, times, random, sink);
}

void Job::runOps(size_t first, size_t last, int rank, int step, bool backward, RankState& s, CollectiveTime* times,
                 Random& random, const Sink& sink) const {
  const Faults& faults = config_.faults;
  const double slow = slowdownOf(rank, step) + 0.02 * ((static_cast<uint32_t>(rank) * 2654435761u >> 16) & 7) / 7.0;
  const bool heavy = config_.laidOut() && stageOf(rank) == faults.heavy_stage && !(faults.heavy_forward && backward);
  for (size_t i = first; i < last; ++i) {
    const Op& op = ops_[i];
    if (op.kind == OpKind::collective && !takesPart(rank, collectives_[op.collective])) continue;
    const uint64_t r = random.next();
    const int64_t correlation = s.correlation++;
    const int64_t api_ns = static_cast<int64_t>(((r >> 20 & 255) == 0 ? 60000 : 3600) * random.noise());
    const int64_t before = 400 + static_cast<int64_t>(r >> 8 & 511), after = 700 + static_cast<int64_t>(r >> 30 & 1023);
    const int64_t launch = s.host + (op.has_cpu_op ? before + 900 : before);
    if (op.has_cpu_op)
      sink(SimEvent{trace::EventType::cpu_op, op.cpu_op, s.host + 200, launch + api_ns + after / 2, trace::kNull,
                    trace::kNull, backward, false});
    const uint32_t api = op.kind == OpKind::memcpy   ? kMemcpyAsync
                         : op.kind == OpKind::memset ? kMemsetAsync
                                                     : kLaunchKernel;
    sink(SimEvent{trace::EventType::runtime, api, launch, launch + api_ns, correlation, trace::kNull, backward, false});
    s.host = launch + api_ns + after;
    const int64_t ready = launch + api_ns + 900 + static_cast<int64_t>(r >> 40 & 255);
    const int64_t gap = 650 + static_cast<int64_t>(r >> 48 & 255);
    if (op.kind == OpKind::collective) {
      CollectiveTime& c = times[op.collective];
      c.ready = std::max(ready, s.compute + gap);  // waits for the gradients
      c.enqueue = launch;
      c.called = launch + api_ns;
      c.correlation = correlation;
    } else if (op.kind == OpKind::kernel) {
      uint32_t k = (r & 15) == 0 ? zipf_[r >> 4 & 65535] : op.kernel;  // one in 16 differs by rank and step
      const auto usual_ns = static_cast<double>(kernels_[k].base_ns);
      if (heavy) k = static_cast<uint32_t>((k + kernels_.size() / 2) % kernels_.size());  // larger: another shape
      const int64_t start = std::max(ready, s.compute + gap);
      double factor = random.noise() * slow * (heavy ? faults.heaviness : 1);
      if (faults.jitter > 0) factor *= 1 + faults.jitter * random.uniform();
      s.compute = start + static_cast<int64_t>(usual_ns * factor);
      sink(SimEvent{trace::EventType::kernel, k, start, s.compute, correlation, trace::kNull, backward, false});
    } else {
      const int64_t start = std::max(ready, s.copy + gap);
      s.copy = start + static_cast<int64_t>(static_cast<double>(op.bytes / 20 + 1500) * random.noise());
      sink(SimEvent{op.kind == OpKind::memcpy ? trace::EventType::memcpy : trace::EventType::memset, 0, start, s.copy,
                    correlation, op.bytes, backward, false});
    }
  }
}

void Job::computePart(int rank, int step, RankState& s, CollectiveTime* times, Random& random, const Sink& sink) const {
  beLate(rank, step, s);
  int64_t begin = s.host;
  runOps(0, backward_op_, rank, step, false, s, times, random, sink);
  sink(SimEvent{trace::EventType::annotation, kForward, begin, s.host, trace::kNull, trace::kNull, false, false});
  begin = s.host;
  runOps(backward_op_, optimizer_op_, rank, step, true, s, times, random, sink);
  sink(SimEvent{trace::EventType::annotation, kBackward, begin, s.host, trace::kNull, trace::kNull, false, false});
}

void Job::optimizerPart(int rank, int step, RankState& s, CollectiveTime* times, Random& random,
                        const Sink& sink) const {
  for (size_t k = 0; k + 1 < collectives_.size(); ++k)
    if (takesPart(rank, collectives_[k]))
      sink(SimEvent{trace::EventType::kernel, collectives_[k].kernel_name, times[k].start, times[k].end,
                    times[k].correlation, collectives_[k].bytes, true, true, streamOf(collectives_[k])});
  s.compute = std::max(s.compute, s.comm[0]);  // the optimizer needs all gradients
  int64_t begin = s.host;
  runOps(optimizer_op_, ops_.size() - 1, rank, step, false, s, times, random, sink);
  if (saves(rank, step)) {  // what was launched is done first: its results are saved
    const auto ns = static_cast<int64_t>(config_.faults.checkpoint_ms * 1e6);
    const int64_t from = std::max({s.host, s.compute, s.copy}) + 2000, correlation = s.correlation++;
    s.copy = from + ns / 20;
    s.host = from + ns;
    sink(SimEvent{trace::EventType::runtime, kMemcpyAsync, from - 1000, from, correlation, trace::kNull, false, false});
    sink(SimEvent{trace::EventType::memcpy, kToHost, from, s.copy, correlation, 20 * (s.copy - from), false, false});
  }
  runOps(ops_.size() - 1, ops_.size(), rank, step, false, s, times, random, sink);
  sink(SimEvent{trace::EventType::annotation, kOptimizer, begin, s.host, trace::kNull, trace::kNull, false, false});
}

void Job::endPart(int rank, int, RankState& s, const CollectiveTime* times, const Sink& sink) const {
  const size_t k = collectives_.size() - 1;
  const bool joins = takesPart(rank, collectives_[k]);
  if (joins)
    sink(SimEvent{trace::EventType::kernel, collectives_[k].kernel_name, times[k].start, times[k].end,
                  times[k].correlation, collectives_[k].bytes, false, true, 0});
  const int64_t end =
      std::max({s.compute, s.copy, *std::max_element(s.comm, s.comm + std::size(s.comm)), joins ? times[k].end : 0}) +
      2500;
  const int64_t call = s.host + 300;
  const int64_t returned = std::max(call + 1000, end);
  sink(SimEvent{trace::EventType::sync, kDeviceSynchronize, call, returned, s.correlation++, trace::kNull, false,
                false});
  s.host = returned + 4000;
}

}  // namespace tracesmith::sim
