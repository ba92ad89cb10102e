// Times of NCCL's launches that were measured by CUDA events: they come in records of their own, after the operations
// or before them, for each thread's lane is read by itself. One process each.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/ring/nccl_records.hpp"

namespace tracesmith::capture {

/// In place of a kernel's name. `args` has the error of the start: {"event_bound_ns":6200}.
constexpr const char* kTimedByEvents = "timed by CUDA events";

class NcclTimes {
 public:
  /// A launch on a lane: the operations after it on that lane are in it.
  void launch(uint32_t lane, const ring::LaunchRecord& record) { lanes[lane] = record.number; }
  /// The number of the launch that an operation of this lane is in; 0: it is not timed.
  uint32_t launchOn(uint32_t lane) const {
    auto it = lanes.find(lane);
    return it == lanes.end() ? 0 : it->second;
  }
  /// The times of the launch an operation is in, if they have come.
  const ring::LaunchTimeRecord* of(const ring::OperationRecord& operation) const {
    auto it = times.find(operation.launch);
    return it == times.end() ? nullptr : &it->second;
  }
  /// Times have come. Returns the operations that waited for them.
  std::vector<ring::OperationRecord> time(const ring::LaunchTimeRecord& record);
  /// An operation waits for its times.
  void wait(const ring::OperationRecord& operation) { waiting[operation.launch].push_back(operation); }
  /// What still waits: in flight, or the process ended before anybody asked.
  std::vector<ring::OperationRecord> giveUp();

  std::map<uint32_t, uint32_t> lanes;
  std::map<uint32_t, ring::LaunchTimeRecord> times;  // the last ones, by number
  std::map<uint32_t, std::vector<ring::OperationRecord>> waiting;
};

}  // namespace tracesmith::capture
