// The job as one graph over all ranks: a rank works until it arrives at a collective, the collective ends when the last
// has come and the transfer is done, computation goes on after those it stood still for. Replayed with other speeds it
// says what would be if.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/job_data.hpp"

namespace tracesmith::analysis {

/// What is different from the job as it was.
struct Change {
  std::map<int32_t, double> work;       ///< by process: its work takes this many times as long
  std::map<uint32_t, double> transfer;  ///< by communicator
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
  struct Dependency {
    uint32_t queue = UINT32_MAX;   // part whose end it queued behind
    uint32_t anchor = UINT32_MAX;  // part after which computation went on; none: the rank's first event
    float gap_ns = 0;
    double least_ns = 0, work_ns = 0;  // from the anchor: at least, and as it was
  };
  const JobData& job_;
  std::vector<Dependency> dependencies_;     // by part
  std::map<int64_t, int64_t> first_, last_;  // by process: reference clock
};

}  // namespace tracesmith::analysis
