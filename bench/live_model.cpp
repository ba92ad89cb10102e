#include "live_model.hpp"

#include <cmath>

namespace tracesmith::bench {

int LiveModel::groupIndex(int r, Group g) const {
  const int t = r % config_.tp, d = r / config_.tp % config_.dp;
  switch (g) {
    case kTp:
      return r / config_.tp;
    case kDp:
      return stage(r) * config_.tp + t;
    case kPp:
      return d * config_.tp + t;
    default:
      return 0;
  }
}

int LiveModel::groupRank(int r, Group g) const {
  return g == kTp ? r % config_.tp : g == kDp ? r / config_.tp % config_.dp : g == kPp ? stage(r) : r;
}

LiveModel::LiveModel(const ModelConfig& config) : config_(config), random_(config.seed) {
  for (int s = 0; s < config_.pp; ++s) makeProgram(s);
  const int sizes[kGroups] = {config_.tp, config_.dp, config_.pp, config_.ranks()};
  static const char* const kNames[kGroups] = {"tp", "dp", "pp", "world"};
  for (int r = 0; r < config_.ranks(); ++r)
    for (int g = 0; g < kGroups; ++g) {
      const int index = groupIndex(r, static_cast<Group>(g));
      const uint64_t hash =
          (config_.seed * 0x9e3779b97f4a7c15ull) ^ (static_cast<uint64_t>(g + 1) << 56) ^ static_cast<uint64_t>(index);
      comms_[{g, index}] = {hash, kNames[g], sizes[g]};
    }
  time_.resize(static_cast<size_t>(config_.ranks()));
  readers_.resize(time_.size());
  for (size_t r = 0; r < time_.size(); ++r) speed_.push_back(1 + 0.02 * random_.uniform());
  sim::Random held(config_.seed ^ 0x8e1d);
  for (size_t r = 0; r < time_.size(); ++r) held_.push_back(held.next() % (static_cast<uint64_t>(config_.held) + 1));
  for (int n = 0; n * config_.per_node < config_.ranks(); ++n)
    next_report_.push_back(static_cast<int64_t>(random_.uniform() * 1e9));
}

/// All forward passes, all backward passes, gradients, one word from all, the optimizer, parameters.
void LiveModel::makeProgram(int s) {
  std::vector<Op> ops;
  const int m = config_.microbatches, boundaries = config_.pp - 1;
  const auto compute = static_cast<int64_t>(config_.step_s * 1e9 / (3.0 * m + 1) / (1 + 0.5 * (boundaries > 0)));
  int tp_instance = 0, dp_instance = 0;
  auto work = [&](double share) {
    Op op{kCompute, kWorld, 0, "", 0, static_cast<int64_t>(share * static_cast<double>(compute)), 0, 1, -1};
    ops.push_back(op);
  };
  auto collective = [&](Group g, int instance, const char* name, int64_t bytes) {
    if ((g == kTp && config_.tp == 1) || (g == kDp && config_.dp == 1)) return;
    ops.push_back({kCollective, g, instance, name, bytes, 20'000 + bytes / 100, 0, 1, -1});
  };
  auto transfer = [&](bool send, int boundary, int micro, bool backward) {
    const int instance = 1000 + (boundary * 2 + backward) * m + micro;
    const int other = s == boundary ? boundary + 1 : boundary;
    ops.push_back({send ? kSend : kRecv, kPp, instance, send ? "send" : "recv", 4 << 20, 60'000, 0, 1, other, boundary,
                   backward});
  };
  for (int i = 0; i < m; ++i) {
    if (s > 0) transfer(false, s - 1, i, false);
    work(1);
    collective(kTp, tp_instance++, "all_reduce", 8 << 20);
    if (s < boundaries) transfer(true, s, i, false);
  }
  for (int i = 0; i < m; ++i) {
    if (s < boundaries) transfer(false, s, i, true);
    work(2);
    collective(kTp, tp_instance++, "all_reduce", 8 << 20);
    if (s > 0) transfer(true, s - 1, i, true);
  }
  collective(kDp, dp_instance++, "reduce_scatter", 64 << 20);
  collective(kDp, dp_instance++, "all_reduce", 1 << 20);
  collective(kWorld, 0, "all_reduce", 4);
  work(1);
  collective(kDp, dp_instance++, "all_gather", 32 << 20);
  Op pause{kHost, kWorld, 0, "", 0, 0, 0, 1, -1};
  ops.push_back(pause);
  collective(kWorld, 1, "all_reduce", 8);
  // The collectives of a communicator are numbered over all functions, and what goes from one rank to another by
  // itself.
  for (Op& op : ops) {
    uint64_t before = 0, all = 0;
    for (const Op& other : ops) {
      if (other.kind < kCollective || other.group != op.group || other.peer != op.peer) continue;
      if (op.peer >= 0 && std::string(other.name) != op.name) continue;
      if (&other < &op) ++before;
      ++all;
    }
    op.seq = before;
    op.per_step = all;
  }
  programs_.push_back(std::move(ops));
}

std::string LiveModel::slowComm() const {
  for (const ModelFault& f : config_.faults) {
    if (f.kind == ModelFault::slow_link)
      return analysis::live::commName(comms_.at({slowGroup(), groupIndex(f.rank, slowGroup())}).hash);
    const int per_stage = config_.dp * config_.tp, first = boundaryOf(f.rank) * per_stage + f.rank % per_stage;
    if (f.kind == ModelFault::slow_pair)
      return "link " + std::to_string(first) + "-" + std::to_string(first + per_stage) + " ";
  }
  return {};
}

double LiveModel::linkFactor(const Op& op, int index, int step) const {
  for (const ModelFault& f : config_.faults) {
    if (step < f.step) continue;
    if (f.kind == ModelFault::slow_link && op.group == slowGroup() && index == groupIndex(f.rank, slowGroup()))
      return 1 + f.size;
    if (f.kind == ModelFault::slow_pair && op.group == kPp && index == groupIndex(f.rank, kPp) &&
        op.boundary == boundaryOf(f.rank) && (f.op % 3 == 2 || (f.op % 3 == 1) == op.backward))
      return 1 + f.size;
  }
  return 1;
}

/// Ranks differ by 2 %, and each goes up and down a little: heat, other jobs, longer and shorter sequences.
double LiveModel::speedOf(int rank, int64_t t) const {
  const double period_ns = (180 + 40 * (rank % 17)) * 1e9;
  return speed_[static_cast<size_t>(rank)] *
         (1 + config_.wander * std::sin(static_cast<double>(t) * 2 * M_PI / period_ns + rank));
}

const ModelFault* LiveModel::faultOf(int rank, int step, size_t op) const {
  for (const ModelFault& f : config_.faults) {
    if (f.kind >= ModelFault::slow || f.kind == ModelFault::silent_node || f.rank != rank || f.step != step) continue;
    std::vector<size_t> candidates;
    const bool differs = f.kind == ModelFault::other_op || f.kind == ModelFault::other_size;
    for (size_t i = 0; i < program(rank).size(); ++i)
      if (differs ? program(rank)[i].kind == kCollective : program(rank)[i].kind >= kCollective)
        candidates.push_back(i);
    if (candidates[static_cast<size_t>(f.op) % candidates.size()] == op) return &f;
  }
  return nullptr;
}

/// Lets a rank go on until it has to wait. True: it has come to the end of the step.
bool LiveModel::run(int rank, StepData& data, std::map<std::pair<int, int>, Instance>& instances,
                    std::vector<size_t>& next, std::vector<int64_t>& time, std::deque<int>& ready) {
  const auto r = static_cast<size_t>(rank);
  const std::vector<Op>& ops = program(rank);
  while (next[r] < ops.size()) {
    const Op& op = ops[next[r]];
    Span& span = data.spans[r][next[r]];
    for (const ModelFault& f : config_.faults)
      if (f.kind == ModelFault::silent_node && nodeOf(f.rank) == nodeOf(rank) && data.step >= f.step) {
        culprits_.insert(rank);
        return false;
      }
    const ModelFault* fault = faultOf(rank, data.step, next[r]);
    if (fault && fault->kind <= ModelFault::died) {
      culprits_.insert(rank);
      return false;  // never comes to it
    }
    span.enter = time[r];
    if (op.kind == kCompute) {
      double factor = speedOf(rank, time[r]) * (1 + config_.noise * (random_.uniform() - 0.5));
      for (const ModelFault& f : config_.faults)
        if (f.kind == ModelFault::slow && f.rank == rank && data.step >= f.step) factor *= 1 + f.size;
      span.end = time[r] + static_cast<int64_t>(static_cast<double>(op.base_ns) * factor);
      if (random_.uniform() < config_.stall_rate * static_cast<double>(op.base_ns) * 1e-9)
        span.end += static_cast<int64_t>(random_.uniform() * config_.stall_ms * 1e6);
    } else if (op.kind == kHost) {
      span.end = time[r];
      if (saves(rank, data.step))
        span.end += static_cast<int64_t>((config_.checkpoint_s + 0.5 * random_.uniform()) * 1e9);
    } else {
      const int index = groupIndex(rank, op.group);
      Instance& instance = instances[{op.group * 100000 + index, op.instance}];
      if (fault && fault->kind == ModelFault::other_op) {
        culprits_.insert(rank);
        elsewhere_[rank] = {&op, time[r]};
        span.enter = kNever;
        return false;
      }
      if (fault && fault->kind == ModelFault::other_size) {
        culprits_.insert(rank);
        elsewhere_[rank] = {&op, time[r]};
        instance.broken = true;
      }
      instance.arrived.push_back(rank);
      instance.last_ns = std::max(instance.last_ns, time[r]);
      const auto needed = static_cast<size_t>(op.kind == kCollective ? comms_[{op.group, index}].size : 2);
      if (instance.arrived.size() < needed || instance.broken) return false;
      const int64_t end =
          instance.last_ns + static_cast<int64_t>(static_cast<double>(op.base_ns) * (1 + 0.1 * random_.uniform()) *
                                                  linkFactor(op, index, data.step));
      for (int member : instance.arrived) {
        const auto k = static_cast<size_t>(member);
        data.spans[k][next[k]].end = end;
        time[k] = end;
        ++next[k];
        if (member != rank) ready.push_back(member);
      }
      continue;
    }
    time[r] = span.end;
    ++next[r];
  }
  return true;
}

void LiveModel::simulateStep() {
  StepData& data = steps_.emplace_back();
  data.step = static_cast<int>(first_step_ + steps_.size() - 1);
  data.start = time_;
  for (const ModelFault& f : config_.faults)
    if (f.kind >= ModelFault::slow && f.step == data.step) slow_ns_ = *std::min_element(time_.begin(), time_.end());
  const auto ranks = static_cast<size_t>(config_.ranks());
  data.spans.resize(ranks);
  std::map<std::pair<int, int>, Instance> instances;
  std::vector<size_t> next(ranks, 0);
  std::deque<int> ready;
  for (int r = 0; r < config_.ranks(); ++r) {
    data.spans[static_cast<size_t>(r)].resize(program(r).size());
    ready.push_back(r);
  }
  size_t done = 0;
  while (!ready.empty()) {
    const int r = ready.front();
    ready.pop_front();
    done += run(r, data, instances, next, time_, ready);
  }
  horizon_ = kNever;
  if (done == ranks) {
    for (int64_t t : time_) horizon_ = std::min(horizon_, t);
    return;
  }
  for (size_t r = 0; r < ranks; ++r)
    for (size_t i = 0; i < data.spans[r].size(); ++i)
      if (data.spans[r][i].enter < kNever && data.spans[r][i].end == kNever && !culprits_.contains(static_cast<int>(r)))
        stalled_ns_ = std::min(stalled_ns_, data.spans[r][i].enter);
  for (const auto& [rank, where] : elsewhere_) stalled_ns_ = std::min(stalled_ns_, where.second);
}

}  // namespace tracesmith::bench
