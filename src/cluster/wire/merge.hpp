// A session as one trace: the blocks of all nodes that belong to its interval, one after another. Blocks that lie in it
// are copied as they are; of those at its edges, the rows that lie in it. Nothing is held in memory but one segment.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "cluster/wire/segment.hpp"
#include "model/travel.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cluster {

using model::SessionRecord;

/// Takes bytes of the trace, in order; `events` says how many rows of `events` are in them.
using TraceSink = std::function<Status(std::string_view bytes, uint64_t events)>;

/// `missing`: nodes whose data is not all here; each gets a row in `losses`.
Status mergeSession(const SessionRecord& session, const std::vector<SegmentInfo>& segments,
                    const std::vector<std::string>& missing, const TraceSink& sink);

/// The same of a session that still records, and grows: every call gives what has come since the one before. No end
/// mark is written.
class GrowingSession {
 public:
  GrowingSession();
  ~GrowingSession();
  Status more(const SessionRecord& session, const std::vector<SegmentInfo>& segments, const TraceSink& sink);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
