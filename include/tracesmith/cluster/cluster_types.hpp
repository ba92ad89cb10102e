// What masters and nodes of a cluster hand to programs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/types.hpp"

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
  std::string lastError() const;

  Timestamp start_time = 0, end_time = 0;  ///< Unix ns, of the first start and the last end
  uint64_t event_count = 0;                ///< collectives included

  /// The next event; false at the end, or with a reason in lastError(). Its timestamp is Unix ns.
  bool next(std::string& node_id, tracesmith::TraceEvent& event);

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
