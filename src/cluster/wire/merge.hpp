// A session as one trace: the blocks of all nodes that belong to its interval, one after another. Blocks that lie in it
// are copied as they are; of those at its edges, the rows that lie in it. Nothing is held in memory but one segment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/wire/segment.hpp"
#include "model/travel.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cluster {

using model::SessionRecord;

/// Takes bytes of the trace, in order; `events` says how many rows of `events` are in them.
using TraceSink = std::function<Status(std::string_view bytes, uint64_t events)>;

/// What of a trace does not go to its sink.
struct LeaveOut {
  /// Takes the header and directory of a block whose columns are left out: `size` bytes that are in the segment from
  /// `offset` on, and follow them in the trace. Empty: no columns are left out.
  std::function<Status(std::string_view head, const SegmentInfo& segment, uint64_t offset, uint64_t size)> columns;
  std::set<std::string> tables;  ///< of tables with a time only these, and losses; empty: all
};

/// A row for `losses`.
struct SessionLoss {
  std::string node, cause;
  std::optional<uint64_t> count;  ///< rows; none: not known
  std::string detail;
  auto operator<=>(const SessionLoss&) const = default;
};

/// `losses`: what is known to be missing. What is found damaged or gone meanwhile is a row in `losses` too, and does
/// not keep the rest from being merged. With `leave_out` the columns of blocks that would be copied as they are do not
/// go to `sink`, except those of small blocks, losses and nodes: the outline of a trace.
Status mergeSession(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
                    const std::vector<SessionLoss>& losses, const TraceSink& sink, const LeaveOut& leave_out = {});

/// The same of a session that still records, and grows: every call gives what has come since the one before. No end
/// mark is written.
class GrowingSession {
 public:
  GrowingSession();
  ~GrowingSession();
  Status more(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
              const std::vector<SessionLoss>& losses, const TraceSink& sink);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
