// Retention: which stored segments may go, from what is stored, what is acknowledged and what sessions want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/wire/segment.hpp"
#include "model/travel.hpp"

namespace tracesmith::cluster {

using model::SessionRecord;

/// Whether data of a segment may belong to a session.
bool touches(const SessionRecord& session, const SegmentInfo& segment);

/// Of one node's segments, oldest first, the indexes of those that may go, oldest first; `now_ns`: reference clock.
///
/// A segment stays while
///  - it grows, is not acknowledged in full, or nobody knows what time it covers;
///  - it is the newest: the agent goes on from there;
///  - a session wants it: it touches the session, is not older than the session's max_age_s (counted from the end of a
///    session that has ended: its last seconds stay, however old they get), and newer segments of the session hold less
///    than the node's share of max_bytes;
///  - no session has a limit: nobody asked for anything to be removed.
std::vector<size_t> removable(const std::vector<SegmentInfo>& segments, const std::vector<SessionRecord>& sessions,
                              int64_t now_ns);

/// Of one node's segments, oldest first, those that only `gone`, which is deleted, needed.
std::vector<size_t> neededByNone(const std::vector<SegmentInfo>& segments, const SessionRecord& gone,
                                 const std::vector<SessionRecord>& sessions);

}  // namespace tracesmith::cluster
