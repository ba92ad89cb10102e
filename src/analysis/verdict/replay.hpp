// The job as one graph over all ranks: a rank works until it arrives at a collective, the collective ends when the last
// has come and the transfer is done, computation goes on after those it stood still for. Replayed with other speeds it
// says what would be if.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/verdict/job_data.hpp"

namespace tracesmith::analysis {

/// What is different from the job as it was.
struct Change {
  /// By process: it comes to every collective no later than the others it can be compared with, and where it has none
  /// (between sends and receives, on a GPU of another model) its work takes this many times as long,
  std::map<int32_t, double> work;
  /// or this part of the time in which its host was late does not pass.
  std::map<int32_t, double> late;
  /// or, where it has no others, this part of the work that only this rank does is not done,
  std::map<int32_t, double> own;
  /// or all its work takes this many times as long.
  std::map<int32_t, double> pace;
  struct Transfer {
    double factor = 1;                  ///< transfers take this many times as long,
    int64_t since_step = trace::kNull;  ///< from this step on; kNull: all
  };
  std::map<uint32_t, Transfer> transfer;  ///< by communicator
  double all_transfers = 1;
};

class Replay {
 public:
  explicit Replay(const JobData& job);
  bool empty() const { return job_.table.instances.empty(); }
  /// Length of the job, ns.
  double run(const Change& change) const;
  /// The chain of work and transfers that the end of the job waited for.
  CriticalPath path() const;

 private:
  /// A part, in the order of the instances: a replay goes through them one after another.
  struct Slot {
    uint32_t queue = UINT32_MAX;   // slot of its stream whose end it queued behind
    uint32_t anchor = UINT32_MAX;  // where computation for it went on; none: the rank's first event
    float gap_ns = 0;
    uint32_t process : 29 = 0;  // index in processes_
    uint32_t queued : 1 = 0;    // as it was, it had to wait in the queue
    uint32_t kept : 1 = 0;      // it cannot leave before the last came
    uint32_t alone : 1 = 0;     // none of the others of its group is like it
    double least_ns = 0;        // from the anchor until it was ready to start
    double late_ns = 0;         // of that, the host was late
    double own_ns = 0;          // of that, it did what no other rank does
    double early_ns = 0;        // so much less it would take if it had worked like the others of its group
    double transfer_ns = 0;     // after the last came; where nobody waits, from its own start
  };
  /// Computation went on after an operation, in the order of time for each rank.
  struct Anchor {
    uint32_t slot = 0;
    int64_t at = 0;             // reference clock
    bool bound = false;         // it is known when computation had come so far,
    double work_ns = 0;         // after the anchor before or, of the first, the rank's first event,
    double late_ns = 0;         // of that, the host was late
    double own_ns = 0;          // of that, it did what no other rank does
    uint32_t process : 31 = 0;  // index in processes_
    uint32_t first : 1 = 0;
  };
  struct Process {
    int64_t process;
    double begin_ns, tail_ns;  // its first event, since the start of the job; its work after the last collective
  };
  void addProcess(int64_t process, std::pair<size_t, size_t> range);
  void compareWithPeers();
  void addAnchors(int64_t process, std::pair<size_t, size_t> range);

  const JobData& job_;
  std::vector<uint32_t> slot_of_;  // by part
  std::vector<Slot> slots_;
  std::vector<Anchor> anchors_;
  std::vector<Process> processes_;           // those with parts
  std::map<int64_t, int64_t> first_, last_;  // by process: reference clock
};

}  // namespace tracesmith::analysis
