// A session as one trace: the blocks of all nodes that belong to its interval, one after another. Blocks that lie in it
// are copied as they are; of those at its edges, the rows that lie in it. Nothing is held in memory but one segment.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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

/// A row for `losses`.
struct SessionLoss {
  std::string node, cause;
  std::optional<uint64_t> count;  ///< rows; none: not known
  std::string detail;
  auto operator<=>(const SessionLoss&) const = default;
};

/// `losses`: what is known to be missing. What is found damaged or gone meanwhile is a row in `losses` too, and does
/// not keep the rest from being merged.
Status mergeSession(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
                    const std::vector<SessionLoss>& losses, const TraceSink& sink);

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
