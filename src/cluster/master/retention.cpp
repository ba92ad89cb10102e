#include "cluster/master/retention.hpp"

#include <algorithm>

namespace tracesmith::cluster {
namespace {

bool limited(const SessionRecord& s) { return s.max_age_s > 0 || s.max_bytes > 0; }

bool tooOld(const SessionRecord& s, const SegmentInfo& segment, int64_t now_ns) {
  const int64_t until = s.end_ns != 0 ? std::min(now_ns, s.end_ns) : now_ns;
  return s.max_age_s > 0 && static_cast<double>(until - segment.covered_ns) > s.max_age_s * 1e9;
}

bool isDone(const SegmentInfo& segment) {
  return segment.closed && segment.covered_ns != 0 && segment.durable >= segment.size;
}

}  // namespace

bool touches(const SessionRecord& s, const SegmentInfo& segment) {
  return segment.covered_ns >= s.start_ns && (s.end_ns == 0 || segment.first_covered_ns <= s.end_ns);
}

std::vector<size_t> neededByNone(const std::vector<SegmentInfo>& segments, const SessionRecord& gone,
                                 const std::vector<SessionRecord>& sessions) {
  std::vector<size_t> free;
  for (size_t i = 0; i < segments.size(); ++i) {
    const SegmentInfo& segment = segments[i];
    auto needs = [&](const SessionRecord& s) { return touches(s, segment); };
    if (isDone(segment) && touches(gone, segment) && std::none_of(sessions.begin(), sessions.end(), needs))
      free.push_back(i);
  }
  return free;
}

std::vector<size_t> removable(const std::vector<SegmentInfo>& segments, const std::vector<SessionRecord>& sessions,
                              int64_t now_ns) {
  std::vector<size_t> gone;
  if (std::none_of(sessions.begin(), sessions.end(), limited)) return gone;
  std::vector<uint64_t> newer(sessions.size(), 0);  // bytes of each session in newer segments
  for (size_t i = segments.size(); i-- > 0;) {
    const SegmentInfo& segment = segments[i];
    bool wanted = i + 1 == segments.size();
    for (size_t k = 0; k < sessions.size(); ++k) {
      const SessionRecord& s = sessions[k];
      if (!touches(s, segment)) continue;
      const uint64_t share = s.max_bytes / std::max<size_t>(1, s.nodes.size());
      const bool beyond = s.max_bytes > 0 && newer[k] >= share;
      wanted |= !beyond && !tooOld(s, segment, now_ns);
      newer[k] += segment.size;
    }
    if (isDone(segment) && !wanted) gone.push_back(i);
  }
  std::reverse(gone.begin(), gone.end());
  return gone;
}

}  // namespace tracesmith::cluster
