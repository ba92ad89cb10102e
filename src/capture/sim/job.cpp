#include "capture/sim/job.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "capture/sim/names.hpp"

namespace tracesmith::sim {

const char* const kApiNames[kApiCount] = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync",
                                          "cudaDeviceSynchronize"};
const char* const kCopyNames[kCopyCount] = {"Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pageable)"};
const char* const kRangeNames[kRangeCount] = {"forward", "backward", "optimizer"};

Job::Job(const JobConfig& config) : config_(config) {
  Random random(config.seed);
  kernels_ = kernelModels(random);
  cpu_ops_ = cpuOpNames();
  collective_kernels_ = collectiveKernelNames();
  if (config_.laidOut()) collective_kernels_.push_back("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");

  std::vector<double> cdf;
  double total = 0;
  for (size_t i = 0; i < kernels_.size(); ++i) cdf.push_back(total += 1 / std::pow(static_cast<double>(i) + 1, 1.05));
  for (int i = 0; i < 65536; ++i)
    zipf_.push_back(
        static_cast<uint32_t>(std::lower_bound(cdf.begin(), cdf.end(), (i + 0.5) / 65536 * total) - cdf.begin()));

  // A step of about 1,150 operations; fewer when the trace is small, so that it still has several steps.
  const double rows_per_op = 2.62;
  const double per_rank = static_cast<double>(config.events) / config.ranks;
  const int count = config.operations > 0 ? std::max(config.operations, 24)
                                          : static_cast<int>(std::clamp(per_rank / rows_per_op / 8, 24.0, 1150.0));
  backward_op_ = static_cast<size_t>(count) * 3 / 10;
  optimizer_op_ = static_cast<size_t>(count) * 8 / 10;
  if (config_.laidOut()) layOut(random);
  if (config_.sharded) shard(random, count);
  for (int i = 0; i < count; ++i) {
    const uint64_t r = random.next();
    Op op{};
    op.kernel = zipf_[r & 65535];
    op.cpu_op = static_cast<uint32_t>(r >> 16) % static_cast<uint32_t>(cpu_ops_.size());
    op.has_cpu_op = (r >> 32) % 10 < 6;
    const auto kind = (r >> 40) % 100;
    const bool backward = static_cast<size_t>(i) >= backward_op_ && static_cast<size_t>(i) < optimizer_op_;
    const bool last = i + 1 == count;
    // Of a pipeline's gradients only those of the last microbatch are reduced.
    const bool gradients = backward && !config_.sharded &&
                           (!config_.laidOut() || static_cast<size_t>(i) >= segmentOps(segments() - 1).first);
    if (last || (gradients && (kind < 16 || static_cast<size_t>(i) + 1 == optimizer_op_))) {
      op.kind = OpKind::collective;
      op.collective = static_cast<uint32_t>(collectives_.size());
      CollectiveModel c;
      const auto which = (r >> 48) % 10;
      c.op = last ? "all_gather" : which < 7 ? "all_reduce" : "reduce_scatter";
      c.group = config_.laidOut()                      ? last && !config_.stages_only ? Group::world : Group::data
                : last || collectives_.size() % 4 != 3 ? Group::world
                                                       : Group::node;
      c.bytes = static_cast<int64_t>(1 + (r >> 52) % 64) << 16;
      c.kernel_name = last ? 0 : which < 7 ? 1 : 2;
      collectives_.push_back(c);
    } else if (kind == 98 || i == 0) {
      op.kind = OpKind::memcpy;
    } else if (kind == 99) {
      op.kind = OpKind::memset;
    } else {
      op.kind = OpKind::kernel;
    }
    op.bytes = static_cast<int64_t>(1024 * (1 + (r >> 20) % 4096));
    ops_.push_back(op);
    rows_per_step_ += op.has_cpu_op ? 3 : 2;  // the operator, its API call, the kernel or copy
  }
  rows_per_step_ += kRangeCount + 2;  // and the final synchronisation, and the step's own range
  if (config_.laidOut()) rows_per_step_ += static_cast<uint64_t>(7 * segments());  // at most
  if (config_.sharded) rows_per_step_ += 2 * (collectives_.size() - 1) + static_cast<uint64_t>(phases() - 2);
  for (CollectiveModel& c : collectives_) {
    c.index = per_step_[static_cast<size_t>(c.group)]++;
    for (CollectiveModel& other : collectives_)
      if (other.group == c.group && std::string_view(other.op) == c.op) {
        other.function_index += &other > &c;
        ++other.function_per_step;
      }
  }
  const uint64_t all_ranks = rows_per_step_ * static_cast<uint64_t>(config.ranks);
  steps_ = static_cast<int>(std::max<uint64_t>(1, (config.events + all_ranks - 1) / all_ranks));

  if (config_.laidOut()) config_.events = static_cast<uint64_t>(steps_) * all_ranks;  // whole steps: ranks differ
  Faults& faults = config_.faults;
  const uint64_t any_rank = random.next(), any_node = random.next();
  if (faults.slow_rank == Faults::kBySeed)
    faults.slow_rank = static_cast<int>(any_rank % static_cast<uint64_t>(config.ranks));
  if (faults.slow_node == Faults::kBySeed)
    faults.slow_node = static_cast<int>(any_node % static_cast<uint64_t>(nodes()));
  if (faults.from_step == Faults::kBySeed) faults.from_step = steps_ / 2;
  for (int n = 0; n < nodes(); ++n) {
    ClockTruth clock;
    const bool reference = n == 0 || !faults.clocks;
    clock.offset = reference ? 0 : static_cast<int64_t>((random.uniform() - 0.5) * 4e9);  // ± 2 s
    clock.drift_ppm = reference ? 0 : std::round((random.uniform() - 0.5) * 1e6) / 1e4;   // ± 50 ppm
    clock.raw_start = kStartNs - clock.offset;
    clocks_.push_back(clock);
  }
}

/// What every layer exchanges, in the order in which all ranks call it.
void Job::shard(Random& random, int operations) {
  layers_ = std::clamp(operations / 40, 2, 16);
  std::vector<int64_t> bytes;
  for (int i = 0; i < layers_; ++i) bytes.push_back(static_cast<int64_t>(1 + random.next() % 16) << 18);
  auto add = [&](const char* op, uint32_t kernel, int phase) {
    const int layer = phase < layers_ ? phase : phases() - 1 - phase;
    collectives_.push_back({op, Group::world, bytes[static_cast<size_t>(layer)], kernel, phase});
    return collectives_.size() - 1;
  };
  gathers_.push_back(add("all_gather", 0, 0));
  for (int phase = 0; phase < phases(); ++phase) {
    if (phase + 1 < phases()) gathers_.push_back(add("all_gather", 0, phase + 1));
    scatters_.push_back(phase >= layers_ ? add("reduce_scatter", 2, phase) : 0);
  }
}

/// Of a microbatch or a layer, forward or backward.
std::pair<size_t, size_t> Job::segmentOps(int segment) const {
  const int each = config_.sharded ? layers_ : config_.microbatches * config_.chunks;
  const auto m = static_cast<size_t>(each);
  const bool back = segment >= each;
  const size_t begin = back ? backward_op_ : 0, count = (back ? optimizer_op_ : backward_op_) - begin;
  const size_t i = static_cast<size_t>(segment) % m;
  return {begin + count * i / m, begin + count * (i + 1) / m};
}

GroupPlace Job::place(int rank, Group group) const {
  const int per_stage = config_.ranks / config_.pipeline, tensor = std::max(1, config_.tensor);
  switch (group) {
    case Group::world:
      return {0, rank, config_.ranks};
    case Group::node: {
      if (config_.laidOut()) return {rank / tensor, rank % tensor, tensor};
      const int per_node = config_.gpus_per_node, node = nodeOf(rank);
      return {node, rank % per_node, std::min(per_node, config_.ranks - node * per_node)};
    }
    case Group::data:
      return {stageOf(rank) * tensor + rank % tensor, rank % per_stage / tensor, per_stage / tensor};
    default:
      return {rank % per_stage, stageOf(rank), config_.pipeline};
  }
}

int Job::groupCount(Group group) const {
  const int tensor = std::max(1, config_.tensor);
  switch (group) {
    case Group::world:
      return 1;
    case Group::node:
      return config_.laidOut() ? config_.ranks / tensor : nodes();
    case Group::data:
      return config_.pipeline * tensor;
    default:
      return config_.ranks / config_.pipeline;
  }
}

int Job::member(Group group, int id, int i) const {
  const int per_stage = config_.ranks / config_.pipeline, tensor = std::max(1, config_.tensor);
  switch (group) {
    case Group::world:
      return i;
    case Group::node:
      return id * (config_.laidOut() ? tensor : config_.gpus_per_node) + i;
    case Group::data:
      return id / tensor * per_stage + i * tensor + id % tensor;
    default:
      return i * per_stage + id;
  }
}

double Job::slowdownOf(int rank, int step) const {
  const Faults& faults = config_.faults;
  const double model = modelFactor(rank);
  if (step < faults.from_step) return model;
  for (const auto& [other, factor] : faults.also_slow)
    if (other == rank) return model * factor;
  return rank == faults.slow_rank ? model * faults.slowdown : model;
}

/// 150 GB/s within a node, 40 GB/s between nodes; all wait for the slow node's links.
double Job::bandwidth(int first, int last, bool whole_job) const {
  const Faults& faults = config_.faults;
  const bool between = nodeOf(first) != nodeOf(last);
  const bool touches = whole_job || (nodeOf(first) <= faults.slow_node && faults.slow_node <= nodeOf(last));
  const bool slow = faults.slow_node >= 0 && (between ? faults.network && touches : nodeOf(first) == faults.slow_node);
  return (between ? 40 : 150) / (slow ? faults.link_slowdown : 1);
}

void Job::settle(int step, size_t first, size_t last, std::vector<RankState>& states,
                 std::vector<CollectiveTime>& times) const {
  for (size_t k = first; k < last; ++k)
    for (int id = 0; id < groupCount(collectives_[k].group); ++id) settleGroup(step, k, id, states, times);
}

void Job::settleGroup(int step, size_t k, int id, std::vector<RankState>& states,
                      std::vector<CollectiveTime>& times) const {
  const size_t per_rank = collectives_.size();
  const CollectiveModel& model = collectives_[k];
  const int begin = member(model.group, id, 0), size = place(begin, model.group).size;
  if (!takesPart(begin, model)) return;
  const int queue = queueOf(model);
  Random random(config_.seed ^ static_cast<uint64_t>(step) << 20 ^ k << 8 ^ static_cast<uint64_t>(begin) << 44 ^
                0xc011ec71);
  auto time = [&](int i) -> CollectiveTime& {
    return times[static_cast<size_t>(member(model.group, id, i)) * per_rank + k];
  };
  auto comm = [&](int i) -> int64_t& { return states[static_cast<size_t>(member(model.group, id, i))].comm[queue]; };
  int64_t arrived = 0;
  for (int i = 0; i < size; ++i) {
    time(i).start = std::max(time(i).ready, comm(i) + 700);
    arrived = std::max(arrived, time(i).start);
  }
  const double gbps = bandwidth(begin, member(model.group, id, size - 1), model.group == Group::world);
  const auto transfer = static_cast<int64_t>((8000 + static_cast<double>(model.bytes) / gbps) * random.noise());
  for (int i = 0; i < size; ++i) {
    time(i).end = arrived + transfer + static_cast<int64_t>(random.next() % 4000);  // ends spread over 4 µs
    comm(i) = time(i).end;
  }
}

namespace {

/// A fault of what is not there would go unnoticed.
Status checkFaults(const JobConfig& c) {
  std::vector<int> ranks = {c.faults.slow_rank, c.faults.late_rank, c.faults.hang_rank};
  for (const auto& [rank, factor] : c.faults.also_slow) ranks.push_back(rank);
  for (const auto& [rank, factor] : c.faults.other_gpus) ranks.push_back(rank);
  const int nodes = (c.ranks + c.gpus_per_node - 1) / std::max(1, c.gpus_per_node);
  auto missing = [](const char* what, int wanted, int there) {
    return Status::invalid(std::string("a fault is of ") + what + " " + std::to_string(wanted) + ", but there " +
                           (there == 1 ? std::string("is only 0") : "are only 0 to " + std::to_string(there - 1)));
  };
  for (const int rank : ranks)
    if (rank >= c.ranks) return missing("rank", rank, c.ranks);
  if (c.faults.slow_node >= nodes) return missing("node", c.faults.slow_node, nodes);
  if (c.faults.heavy_stage >= c.pipeline) return missing("stage", c.faults.heavy_stage, c.pipeline);
  return {};
}

}  // namespace

Status checkLayout(const JobConfig& c) {
  const int tensor = std::max(1, c.tensor);
  if (c.pipeline < 1 || c.tensor < 0 || c.microbatches < 1 || c.microbatches > 64)
    return Status::invalid(
        "a pipeline has at least one stage, a tensor group no negative size, a step 1 to 64 microbatches");
  if (static_cast<int64_t>(c.pipeline) * tensor > c.ranks || c.ranks % (c.pipeline * tensor) != 0)
    return Status::invalid(std::to_string(c.ranks) + " ranks cannot be " + std::to_string(c.pipeline) +
                           " stages of tensor groups of " + std::to_string(tensor) +
                           ": their product must divide the number of ranks");
  if (c.in_turn && c.pipeline < 2) return Status::invalid("1F1B is a schedule of pipeline stages: give at least two");
  // With two stages each would send microbatches of both passes to the other, in no order that they agree on.
  if (c.chunks < 1 || (c.chunks > 1 && (!c.in_turn || c.pipeline < 3 || c.microbatches % c.pipeline != 0)))
    return Status::invalid(
        "several chunks on a stage are a schedule of 1F1B with at least three stages, whose number divides that of the "
        "microbatches");
  if (c.sharded && c.laidOut())
    return Status::invalid("sharded parameters are simulated without pipeline stages and tensor groups");
  if (c.stages_only && c.ranks != c.pipeline * tensor)
    return Status::invalid("stages that share no gradients have one rank or one tensor group each: " +
                           std::to_string(c.pipeline * tensor) + " ranks, not " + std::to_string(c.ranks));
  if (c.stages_only && c.faults.hang_rank >= 0)
    return Status::invalid("hang= needs a collective of all ranks, and stages that share no gradients have none");
  if (c.tensor > 1 && c.gpus_per_node % c.tensor != 0)
    return Status::invalid("a tensor group of " + std::to_string(c.tensor) + " ranks does not fit nodes of " +
                           std::to_string(c.gpus_per_node) + " GPUs");
  return checkFaults(c);
}

Status addFault(Faults& faults, const std::string& text) {
  const size_t equals = text.find('='), colon = text.find(':', equals == std::string::npos ? 0 : equals);
  const std::string name = text.substr(0, equals);
  auto number = [](const std::string& s, double least, double& out) {
    char* end = nullptr;
    out = std::strtod(s.c_str(), &end);
    return !s.empty() && *end == 0 && out >= least && out <= 1e9;
  };
  double first = 0, second = 0;
  const bool has_first =
      equals != std::string::npos &&
      number(text.substr(equals + 1, colon == std::string::npos ? colon : colon - equals - 1), 0, first);
  const bool has_second = colon != std::string::npos && number(text.substr(colon + 1), 0, second);
  const bool wrong = colon != std::string::npos && !has_second;
  const int whole = static_cast<int>(first);
  if (name == "none" && equals == std::string::npos) {
    faults = Faults::none();
  } else if (!has_first || wrong) {
    return Status::invalid(
        "unknown fault '" + text +
        "': use slow-gpu=RANK[:FACTOR], other-gpu=RANK[:FACTOR], heavy-stage=STAGE[:FACTOR], "
        "slow-link=NODE[:FACTOR], late=RANK[:MS], jitter=PERCENT, hang=RANK[:STEP], checkpoint=STEPS[:MS], from=STEP "
        "or none");
  } else if (name == "slow-gpu") {
    if (faults.slow_rank >= 0) {
      faults.also_slow.emplace_back(whole, has_second ? second : Faults().slowdown);
    } else {
      faults.slow_rank = whole;
      if (has_second) faults.slowdown = second;
    }
  } else if (name == "other-gpu") {
    faults.other_gpus.emplace_back(whole, has_second ? second : 3.0);
  } else if (name == "heavy-stage") {
    faults.heavy_stage = whole;
    if (has_second) faults.heaviness = second;
  } else if (name == "slow-link") {
    faults.slow_node = whole;
    faults.network = true;
    if (has_second) faults.link_slowdown = second;
  } else if (name == "late") {
    faults.late_rank = whole;
    if (has_second) faults.late_ms = second;
  } else if (name == "hang") {
    faults.hang_rank = whole;
    if (has_second) faults.hang_step = static_cast<int>(second);
  } else if (name == "checkpoint" && whole > 0) {
    faults.checkpoint_every = whole;
    faults.checkpoint_ms = has_second ? second : 2000;
  } else if (name == "jitter" && !has_second) {
    faults.jitter = first / 100;
  } else if (name == "from" && !has_second) {
    faults.from_step = whole;
  } else {
    Faults ignored;
    return addFault(ignored, name + "=");
  }
  return {};
}

}  // namespace tracesmith::sim
