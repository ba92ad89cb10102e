// What the classes for masters and nodes return to programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/capture/nccl_tracker.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/common/types.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {

/// A trace that was collected: an SBT file, which may be larger than memory. It is the caller's to keep or remove.
struct TraceRecord {
  std::string path;  ///< empty: it failed
  uint64_t event_count = 0;
  std::vector<std::string> nodes;
  bool complete = false;  ///< every node delivered all it had
};

/// All events of a trace in the order of the corrected clock, read as they are asked for: what is in memory are the
/// blocks that overlap in time. Collectives come as NCCLComplete, beside their kernels; those still in flight have no
/// place in time yet.
class TRACESMITH_API ClusterTimeline {
 public:
  ClusterTimeline();
  ~ClusterTimeline();
  ClusterTimeline(ClusterTimeline&&) noexcept;
  ClusterTimeline& operator=(ClusterTimeline&&) noexcept;

  /// The file may be removed while it is open. False with a reason in lastError().
  bool open(const std::string& trace);
  std::string lastError() const { return lastStatus().message(); }
  Status lastStatus() const;
  /// Fills `events`, `nccl_ops` and `cluster_topology`: all in memory, so for captures that fit there.
  bool load(uint64_t max_events_per_node = UINT64_MAX);

  Timestamp start_time = 0, end_time = 0;  ///< Unix ns, of the first start and the last end
  uint64_t event_count = 0;                ///< collectives included

  /// What load() found. Events in order of time, their node in metadata "node"; times are Unix ns.
  std::vector<tracesmith::TraceEvent> events;
  uint64_t events_left_out = 0;           ///< beyond the limit for their node
  std::vector<NCCLOperation> nccl_ops;    ///< in order of time; those in flight last
  GPUTopologyInfo cluster_topology = {};  ///< GPUs of all nodes numbered one after another, nodes by name

  /// The next event; false at the end, or with a reason in lastError(). Its timestamp is Unix ns.
  bool next(std::string& node_id, tracesmith::TraceEvent& event);

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
