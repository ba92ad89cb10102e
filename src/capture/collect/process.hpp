// What a Collector knows about each process it follows. Only for the files of Collector itself.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "capture/collect/collector.hpp"
#include "capture/collect/nccl_join.hpp"
#include "capture/collect/nccl_times.hpp"

namespace tracesmith::capture {

struct Collector::Process {
  std::unique_ptr<ring::RingReader> ring;
  std::unordered_map<uint32_t, int64_t> names;  // ring string → trace string
  std::map<uint32_t, int64_t> lane_tids;
  NcclJoin nccl;
  NcclTimes times;
  struct Step {
    int64_t step;
    uint64_t start, end;  // end: 0 while it runs
  };
  std::deque<Step> steps;  // the last ones
  // Of libraries that use no device, those that have begun and not ended: by group, operation, number and peer.
  std::map<std::tuple<uint32_t, uint32_t, uint64_t, int32_t>, ring::HostOperationRecord> open_operations;
  int64_t node = trace::kNull;
  std::vector<uint64_t> cursors;           // of take(): records read, by lane
  uint64_t gpu_since = 0;                  // its kernels are known since then
  uint64_t skipped = 0, skipped_told = 0;  // overwritten before take() came
  uint64_t losses_told[ring::kLossCauses] = {};
  uint64_t unjoined_told[5] = {};  // operations and kernels of NCCL, as lossRows() names them
  uint64_t graph_launches = 0;     // whose kernels are not recorded
  bool described = false, cut_told = false, hidden_told = false;
  std::optional<Watched> watched;  // as it was last reported
  bool has_operations = false;
  bool gpu_told = false;      // whether its GPU was recorded when its rows begin
  bool ended = false;         // seen dead at the last dropEnded()
  uint32_t role = 0;          // string of the ring, as it was described
  bool rank_of_role = false;  // a process with another role has the same rank, and was there first

  /// The step a row belongs to: the GPU works for the last one that began, the host only within it.
  int64_t stepAt(uint64_t ns, bool on_gpu) const {
    for (auto s = steps.rbegin(); s != steps.rend(); ++s)
      if (s->start <= ns) return on_gpu || s->end == 0 || ns < s->end ? s->step : trace::kNull;
    return trace::kNull;
  }

  // As last known: a ring that was cut short cannot be asked any more.
  /// Of the job. Roles may each count their ranks from 0: one that another role has as well is none of the job's.
  int64_t rank() const {
    if (!ring->cut()) last_rank = ring->header().rank.load();
    return last_rank < 0 || rank_of_role ? trace::kNull : last_rank;
  }
  /// Of a process in a container the id it has outside, where that can be known: two containers may both have a 7.
  int64_t pid() const {
    if (ring->cut()) return last_pid;
    if (!ring->inOtherNamespace())
      last_pid = ring->header().pid;
    else if (last_pid == 0)
      last_pid = ring->shownPid();
    return last_pid;
  }
  mutable int64_t last_rank = -1, last_pid = 0;
};

template <typename Row>
void Collector::append(const Row& row) {
  if (status_) status_ = out_->append(row);
}

}  // namespace tracesmith::capture
