// What one node tells about itself every second: small enough to send always, enough to see a hang or a slow rank.
// Plain data; where a value was not measured it is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tracesmith::analysis::live {

/// The newest value of a metric. Names as in the table `metrics`; of a counter its growth, named "…_per_second".
struct Metric {
  std::string name;
  std::optional<double> value;
};

struct GpuState {
  uint32_t index = 0;
  std::string name;
  bool simulated = false;
  std::vector<Metric> metrics;  ///< always the same names, in the same order
};

/// A collective, send or receive that was launched and has not ended.
struct InFlight {
  std::string op;  ///< all_reduce, …, send, recv
  uint64_t comm = 0, seq = 0;
  int32_t peer = -1;  ///< of a send or receive: rank in the communicator; `seq` counts those with it
  int64_t bytes = 0;
  uint32_t stream = 0;
  uint32_t before = 0;  ///< launches on its stream that it queues behind; 0: it runs
  int64_t age_ns = 0;   ///< since it was launched
  int64_t wait_ns = 0;  ///< since it was launched and everything before it on its stream had ended
};

/// How far a rank has come with one kind of operation of a communicator, or with what it sends to or receives from one
/// peer: each is numbered by itself.
struct OpProgress {
  std::string op;
  uint64_t entered = 0;               ///< the last one launched
  std::optional<uint64_t> completed;  ///< the last one seen to end
  int32_t peer = -1;
};

/// Collectives of one size, or sends or receives of one size with one peer, that ended since the last report. The
/// shortest over all ranks is the transfer itself: the last rank to come does not wait.
struct Transfers {
  std::string op;
  int64_t bytes = 0;
  uint32_t count = 0;
  int64_t shortest_ns = 0, total_ns = 0;
  int32_t peer = -1;  ///< of a send or receive: rank in the communicator
};

struct CommState {
  uint64_t comm = 0;  ///< NCCL's hash, the same on all its ranks
  std::string name;
  int32_t group_rank = -1, size = -1;
  uint32_t in_flight = 0;
  std::vector<OpProgress> ops;
  std::vector<Transfers> transfers;
};

/// A step that has ended.
struct StepTime {
  int64_t step = 0, duration_ns = 0;
  int64_t comm_ns = 0;  ///< time in NCCL's kernels: the rank everybody waits for has the least
};

enum class ProcessState : uint8_t { running, stopped, dead, ended };

struct ProcessReport {
  int64_t pid = 0;
  int32_t rank = -1, world_size = -1, local_rank = -1;
  ProcessState state = ProcessState::running;
  bool simulated = false;
  uint64_t activity = 0;                 ///< kernels and copies that ended since the last report
  std::optional<int64_t> quiet_ns;       ///< since the last of them
  int64_t longest_wait_ns = 0;           ///< the longest of NCCL's kernels since the last report
  uint64_t missed = 0;                   ///< records that were overwritten before they were read
  std::optional<double> cpu_share;       ///< of one core, since the last report
  std::optional<double> io_bytes_per_s;  ///< read and written by its calls, since the last report
  std::optional<int64_t> step, step_age_ns;
  std::vector<StepTime> steps;  ///< those that ended since the last report
  std::vector<CommState> comms;
  std::vector<InFlight> in_flight;  ///< the oldest of each stream, in the order of their launch
};

struct NodeReport {
  std::string node;
  std::vector<GpuState> gpus;
  std::vector<ProcessReport> processes;
  double cpu_share = 0;  ///< of one core, what making these reports costs
};

/// "running", "stopped", "dead", "ended".
const char* stateName(ProcessState state);
/// A communicator's name, as in the table `collectives`.
std::string commName(uint64_t comm);

}  // namespace tracesmith::analysis::live
