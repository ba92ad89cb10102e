#include "capture/sim/job.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "capture/sim/names.hpp"

namespace tracesmith::sim {

const char* const kApiNames[kApiCount] = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync",
                                          "cudaDeviceSynchronize"};
const char* const kRangeNames[kRangeCount] = {"forward", "backward", "optimizer"};

Job::Job(const JobConfig& config) : config_(config) {
  Random random(config.seed);
  kernels_ = kernelModels(random);
  cpu_ops_ = cpuOpNames();
  collective_kernels_ = collectiveKernelNames();

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
  for (int i = 0; i < count; ++i) {
    const uint64_t r = random.next();
    Op op{};
    op.kernel = zipf_[r & 65535];
    op.cpu_op = static_cast<uint32_t>(r >> 16) % static_cast<uint32_t>(cpu_ops_.size());
    op.has_cpu_op = (r >> 32) % 10 < 6;
    const auto kind = (r >> 40) % 100;
    const bool backward = static_cast<size_t>(i) >= backward_op_ && static_cast<size_t>(i) < optimizer_op_;
    const bool last = i + 1 == count;
    if (last || (backward && (kind < 16 || static_cast<size_t>(i) + 1 == optimizer_op_))) {
      op.kind = OpKind::collective;
      op.collective = static_cast<uint32_t>(collectives_.size());
      CollectiveModel c;
      const auto which = (r >> 48) % 10;
      c.op = last ? "all_gather" : which < 7 ? "all_reduce" : "reduce_scatter";
      c.world = last || collectives_.size() % 4 != 3;
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
  const uint64_t all_ranks = rows_per_step_ * static_cast<uint64_t>(config.ranks);
  steps_ = static_cast<int>(std::max<uint64_t>(1, (config.events + all_ranks - 1) / all_ranks));

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

void Job::settle(int step, size_t first, size_t last, std::vector<RankState>& states,
                 std::vector<CollectiveTime>& times) const {
  const size_t per_rank = collectives_.size();
  for (size_t k = first; k < last; ++k) {
    const CollectiveModel& model = collectives_[k];
    const int group = model.world ? config_.ranks : config_.gpus_per_node;
    for (int begin = 0; begin < config_.ranks; begin += group) {
      const int end = std::min(config_.ranks, begin + group);
      const int node = nodeOf(begin);
      Random random(config_.seed ^ static_cast<uint64_t>(step) << 20 ^ k << 8 ^ static_cast<uint64_t>(begin) << 44 ^
                    0xc011ec71);
      int64_t arrived = 0;
      for (int r = begin; r < end; ++r) {
        CollectiveTime& t = times[static_cast<size_t>(r) * per_rank + k];
        t.start = std::max(t.ready, states[static_cast<size_t>(r)].comm + 700);
        arrived = std::max(arrived, t.start);
      }
      // 150 GB/s within a node, 40 GB/s between nodes; all wait for the slow node's links.
      const Faults& faults = config_.faults;
      const bool between = model.world && nodes() > 1;
      const bool slow = between ? faults.network && faults.slow_node >= 0 : node == faults.slow_node;
      const double gbps = (between ? 40 : 150) / (slow ? faults.link_slowdown : 1);
      const auto transfer = static_cast<int64_t>((8000 + static_cast<double>(model.bytes) / gbps) * random.noise());
      for (int r = begin; r < end; ++r) {
        CollectiveTime& t = times[static_cast<size_t>(r) * per_rank + k];
        t.end = arrived + transfer + static_cast<int64_t>(random.next() % 4000);  // ends spread over 4 µs
        states[static_cast<size_t>(r)].comm = t.end;
      }
    }
  }
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
    return Status::invalid("'" + text +
                           "' is no fault: give slow-gpu=RANK[:FACTOR], slow-link=NODE[:FACTOR], late=RANK[:MS], "
                           "jitter=PERCENT, hang=RANK[:STEP], from=STEP or none");
  } else if (name == "slow-gpu") {
    faults.slow_rank = whole;
    if (has_second) faults.slowdown = second;
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
