// Finds what ran of the operations in CUDA graphs. The probe tells of each launch of a graph, with the operations that
// were captured into it and their numbers; CUPTI tells of each run of a graph: as a whole, or (where asked for) of its
// kernels. A launch is told right before its call, whose correlation the run has; without calls launches and runs
// follow each other in one order.
//
// A run as a whole says that its operations have ended, and not when each of them ran.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "capture/collect/nccl_operation.hpp"

namespace tracesmith::capture {

class GraphJoin {
 public:
  struct Part {
    ring::LaunchRecord launch;  // the same times in all parts of a launch
    std::vector<NcclOperation> operations;
  };
  struct Launch {
    std::vector<Part> parts;  // at least one
    uint32_t lane = 0;
    int64_t tid = 0;  // 0: not known
    std::optional<uint32_t> correlation;
    uint64_t since = 0;  // when it was read

    const ring::LaunchRecord& record() const { return parts.front().launch; }
    size_t operations() const;
  };
  /// What CUPTI has told so far.
  struct Run {
    uint32_t correlation = 0, graph = 0;
    uint64_t start = 0;
    uint64_t since = 0;  // when the last of it was read
    std::optional<ring::GraphRecord> whole;
    std::vector<ring::KernelRecord> kernels;
  };
  struct Joined {
    uint64_t launch_start = 0, run_start = 0, at = 0;
  };

  /// A part of a launch; those of one launch follow each other on their lane, each before its operations.
  void launch(uint32_t lane, const ring::LaunchRecord& record, int64_t tid, uint64_t now);
  void operation(uint32_t lane, const ring::OperationRecord& record, int64_t tid);
  void call(const ring::CallRecord& record);
  void run(const ring::GraphRecord& record, uint64_t now);
  void kernel(const ring::KernelRecord& record, uint64_t now);

  void pass(const JoinTime& time, const RingText& text, const NcclDone& done);
  /// What still waits: returns how many operations are in flight. Of graphs that were never seen to end nobody knows.
  size_t giveUp(const NcclDone& done);
  struct InFlight {
    const NcclOperation* operation;
    uint32_t stream;
    uint64_t launch_start;
  };
  /// Of graphs that were seen to end before; what was launched first comes first.
  std::vector<InFlight> inFlight(const JoinTime& time, const RingText& text) const;
  /// Whether launches of graphs are told at all: else what runs in graphs belongs to what was captured.
  bool knows() const { return known; }

  std::deque<Launch> launches;  // by start
  std::deque<Run> runs;
  std::deque<ring::CallRecord> calls;   // of launches not read yet
  std::map<uint32_t, Joined> last;      // by stream
  std::map<uint32_t, uint32_t> graphs;  // by exec: CUPTI's number of it; those that were seen to end
  bool known = false;
  uint64_t lost = 0, lone = 0;  // operations and kernels that could not be joined
  uint64_t hidden = 0;          // operations that ran within a whole

 private:
  Run& runOf(uint32_t correlation, uint32_t graph, uint64_t start, uint64_t now);
  bool take(const ring::CallRecord& call);
  bool possible(const Launch& launch, const Run& run, const JoinTime& time, const RingText& text) const;
  void finish(size_t launch, const Run& run, const JoinTime& time, const RingText& text, const NcclDone& done);
  void hide(const Launch& launch, const ring::KernelRecord* within, const NcclDone& done);
  void passOver(const JoinTime& time, const NcclDone& done);
  bool isLatest(const Run& run) const;

  uint64_t newest_call_ = 0, first_launch_ = UINT64_MAX;
  size_t open_ = 0;  // operations of the last run whose kernels have not come
};

}  // namespace tracesmith::capture
