// NCCL operations of this process: what was called, and when it ran on the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/capture/profiler.hpp"
#include "tracesmith/common/export.hpp"

namespace tracesmith::cluster {

enum class NCCLOpType {
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Reduce,
  AllToAll,  ///< NCCL runs it as sends and receives; newer versions say so themselves
  Send,
  Recv,
  GroupStart,  ///< these two are calls, not operations: see NCCLTracker::getOperationsByType()
  GroupEnd,
  Unknown
};
TRACESMITH_API const char* ncclOpName(NCCLOpType type);  ///< "AllReduce"
/// "all_reduce", as in traces; "other" if it is not an operation.
TRACESMITH_API const char* operationName(NCCLOpType type);

enum class NCCLRedOp { Sum, Prod, Max, Min, Avg, Unknown };

enum class NCCLDataType {
  Int8,
  Uint8,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Float16,
  Float32,
  Float64,
  BFloat16,
  Float8e4m3,
  Float8e5m2,
  Unknown
};

struct NCCLOperation {
  /// Number within its communicator, over all functions; of a send or receive among those with its peer.
  uint64_t op_id = 0;
  std::optional<uint64_t> nccl_seq;  ///< NCCL's own number, which counts each function by itself
  NCCLOpType op_type = NCCLOpType::Unknown;
  NCCLRedOp red_op = NCCLRedOp::Unknown;  ///< from the kernel's name, where it says so
  NCCLDataType data_type = NCCLDataType::Unknown;

  uint64_t comm_id = 0;
  uint32_t rank = 0, world_size = 0;  ///< within the communicator

  /// Number of the ncclGroupStart … ncclGroupEnd in which it was called, or of its own call; the same for all
  /// operations of one group of this process. Empty: not known, as with NCCL before 2.28, or if NCCL reports the
  /// operation on a CUDA thread (replays of graphs, CUDA_LAUNCH_BLOCKING).
  std::optional<uint64_t> group_id;
  /// Who called it, the innermost function first: "name (library+0x1234)", without a name where the library exports
  /// none. Only with capture_call_stack, else nullptr; shared by all operations that were called from there. Before
  /// NCCL 2.28 it is the stack of the call that launched the operation: of a group, ncclGroupEnd.
  std::shared_ptr<const std::vector<std::string>> call_stack;

  std::string algo;  ///< ring, tree, nvls, …; empty: NCCL does not say

  size_t count = 0;      ///< elements as passed to NCCL; for AllToAll, those for one rank
  size_t data_size = 0;  ///< bytes of this rank's message; for AllToAll, those for all ranks

  Timestamp enqueue_time = 0;        ///< when the host called it
  Timestamp start_time = 0;          ///< on the GPU; 0 while in flight
  Timestamp end_time = 0;            ///< on the GPU; 0 while in flight
  uint64_t duration_ns = 0;          ///
  bool in_flight = false;            ///< called, its kernel not seen to end
  std::optional<double> algbw_gbps;  ///< bytes of the whole operation over time, GB/s, as nccl-tests counts it
  std::optional<double> busbw_gbps;  ///< what a link carried, GB/s
  std::optional<int32_t> peer_rank;  ///< of Send and Recv, or root; empty: none, or not known
  uint64_t cuda_stream = 0;          ///< CUPTI's stream id
  uint32_t device_id = 0;            ///
  uint64_t correlation_id = 0;       ///< of the kernel; 0 while in flight
  bool simulated = false;
};

struct NCCLTrackerConfig {
  bool hook_enabled = true;
  bool track_all_comms = true;
  std::vector<uint64_t> comm_filter;  ///< only these; empty: all
  bool capture_call_stack = false;    ///< see NCCLOperation::call_stack; costs microseconds for each operation
  size_t max_operations = 100000;     ///< kept; older ones go, and are counted
  uint32_t poll_interval_ms = 20;
  PlatformType platform = PlatformType::CUDA;
  ProfilerConfig profiler;
};

class TRACESMITH_API NCCLTracker {
 public:
  explicit NCCLTracker(const NCCLTrackerConfig& config = {});
  ~NCCLTracker();
  NCCLTracker(const NCCLTracker&) = delete;
  NCCLTracker& operator=(const NCCLTracker&) = delete;

  /// Makes the probe NCCL's profiler plugin: before the first communicator is made. False with a reason in
  /// lastStatus().
  bool installHooks();
  void removeHooks();
  bool isHooked() const;
  /// The reason for the last failure.
  Status lastStatus() const;
  std::string lastError() const { return lastStatus().message(); }

  /// Needs installHooks() first; if it fails, lastStatus() has the reason.
  void startCapture();
  void stopCapture();
  void clear();

  /// Finished ones in the order they ended, then those in flight.
  std::vector<NCCLOperation> getOperations() const;
  /// GroupStart and GroupEnd give the groups that the program made itself, which getOperations() leaves out, with
  /// `enqueue_time` and `group_id` alone. NCCL tells of a group when its first operation is called, and of its end when
  /// ncclGroupEnd() has launched it; of none before 2.28.
  std::vector<NCCLOperation> getOperationsByType(NCCLOpType type) const;
  std::vector<NCCLOperation> getOperationsByComm(uint64_t comm_id) const;
  std::vector<NCCLOperation> getInFlight() const;
  uint64_t operationsDropped() const;

  std::vector<TraceEvent> toTraceEvents() const;
  /// Writes into the NCCL kernels among the events (metadata nccl_op, nccl_comm, nccl_group, seq, nccl_seq,
  /// nccl_bytes) what they did.
  void correlateWithGPUEvents(std::vector<TraceEvent>& gpu_events) const;

  struct Statistics {
    uint64_t total_operations = 0;
    uint64_t total_bytes_transferred = 0;
    uint64_t total_duration_ns = 0;
    std::map<NCCLOpType, uint64_t> ops_by_type, bytes_by_type, duration_by_type;
  };
  /// Of all finished operations since clear(), also those no longer kept.
  Statistics getStatistics() const;

  /// Called for each operation that ended, from the tracker's own thread and without a lock held.
  using OperationCallback = std::function<void(const NCCLOperation&)>;
  void setOperationCallback(OperationCallback callback);

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
