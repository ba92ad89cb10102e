// From rings to a trace: takes the records of the processes of a job and writes them as rows.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/collect/watched.hpp"
#include "capture/ring/reader.hpp"
#include "model/ring/program_records.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::capture {

struct NcclOperation;

/// What one rank did in one step. Communication: NCCL's kernels, and operations of libraries on the host; they last
/// until the slowest rank has come.
struct StepStats {
  uint64_t ns = 0;  ///< 0: the step was not seen to end
  uint64_t kernels = 0, computing_ns = 0, collectives = 0, communicating_ns = 0;
};

struct CollectorStats {
  uint64_t processes = 0, records = 0, kernels = 0, collectives = 0, losses = 0;
  bool saw_cuda = false, simulated = false;
  std::optional<Watched> watched;                         // of all processes that used CUDA in watch mode
  std::vector<std::string> notes;                         // what probes reported as wrong
  std::map<int64_t, std::map<int64_t, StepStats>> steps;  // by step and rank (-1: not known), with sumUpSteps()
};

/// One job's records into one trace. Not thread safe.
class Collector {
 public:
  /// `node`: name of this machine in the trace.
  Collector(trace::Writer& writer, std::string node);
  ~Collector();

  /// Starts to follow a ring. With attach, full lanes drop from now on instead of overwriting.
  Status follow(const std::string& path, bool attach);
  bool follows(const std::string& path) const;

  /// From now on records of what ended before `since_ns` (raw clock) are passed over.
  void leaveOutBefore(uint64_t since_ns) { since_ns_ = since_ns; }
  /// Somebody else writes the tables `nodes` and `clocks`.
  void leaveOutNodes() { describe_nodes_ = false; }
  /// From now on stats() includes steps.
  void sumUpSteps() { sum_up_steps_ = true; }
  /// Somebody else writes this machine's row of `nodes`.
  void leaveOutNode() { node_described_ = true; }
  /// Takes new records; returns how many.
  Result<size_t> drain();
  /// For a reader that may be killed at any moment: takes new records but leaves them in the rings until release(),
  /// which the caller calls when the rows and state() are safe. Another collector goes on with restore().
  Result<size_t> take();
  /// What is known beyond the rows: how far each ring was read, operations that wait for their kernel, losses reported.
  std::string state() const;
  /// Follows the rings of a state that still exist, attached, from where it stopped.
  void restore(std::string_view state);
  void release();
  /// Rings stay attached when this collector is destroyed.
  void leaveAttached();
  /// Writes what is known about processes followed since the last call, and losses that are new.
  Status describe();
  Status flush();
  /// Largest share of a lane taken and not released.
  double held() const;
  /// Stops following processes that have ended and were read to their end; returns their rings.
  std::vector<std::string> dropEnded();

  /// Takes a copy of what the rings hold.
  Result<size_t> snapshot();
  /// Number of followed processes that still run.
  size_t alive() const;

  /// Joins kernels that still wait for earlier ones: no more records from before now will be read.
  void settle();
  /// Writes operations whose kernels have not ended: no more records will be read. The recording ended at `end_raw` at
  /// the latest.
  void giveUpInFlight(int64_t end_raw = INT64_MAX);
  /// Writes what is known about processes, operations still in flight and losses. Call once, at the end.
  Status finish();
  const CollectorStats& stats() const { return stats_; }

 private:
  struct Process;

  int64_t nodeOf(const ring::RingHeader& header);
  void tellRolesApart();
  void processRow(Process& p);
  void lossRows(Process& p);
  void watchRow(Process& p);
  void describe(Process& p);
  size_t takeSince(Process& p, uint32_t lane, const ring::Record& record);
  bool joins(Process& p, uint32_t lane, const ring::Record& record);
  void pass(Process& p);
  void take(Process& p, uint32_t lane, const ring::Record& record);
  trace::EventRow eventRow(Process& p, const ring::Record& record, trace::EventType type);
  void deviceRow(const ring::Record& record, uint32_t context, trace::EventRow& row);
  void copyRow(Process& p, const ring::Record& record);
  void rangeRow(Process& p, const ring::RangeRecord& range, int64_t lane_tid);
  void stepRow(Process& p, const ring::StepRecord& step);
  void gpuRow(Process& p, bool on, uint64_t ns);
  void proxyRow(Process& p, const ring::ProxyRecord& op);
  void kernel(Process& p, const ring::Record& record);
  void operationDone(Process& p, const NcclOperation& operation, const ring::KernelRecord* kernel);
  void collectiveRow(Process& p, const NcclOperation& operation, const ring::KernelRecord* kernel);
  size_t giveUp(Process& p);
  void hostOperation(Process& p, const ring::HostOperationRecord& operation);
  void hostOperationRow(Process& p, const ring::HostOperationRecord& operation);
  size_t giveUpHostOperations(Process& p);
  void processGroupRow(Process& p, const ring::ProcessGroupRecord& group);
  void graphNodeRow(Process& p, const ring::GraphNodeRecord& node);
  int64_t name(Process& p, uint32_t id);
  template <typename Row>
  void append(const Row& row);

  trace::Writer& writer_;
  std::unique_ptr<trace::Appender> out_;
  std::string node_;
  int64_t node_id_;
  uint64_t since_ns_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::string> seen_;
  bool describe_nodes_ = true;
  std::set<int64_t> nodes_;  // of processes described
  bool sum_up_steps_ = false, node_described_ = false;
  Status status_;  // the first write error
  CollectorStats stats_;
};

/// This machine's name: the host name.
std::string hostName();

}  // namespace tracesmith::capture
