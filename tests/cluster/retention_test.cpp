// Which segments may go: a table of what is stored, acknowledged and wanted.
#include "cluster/master/retention.hpp"

#include <gtest/gtest.h>

namespace tracesmith::cluster {
namespace {

constexpr int64_t kS = 1'000'000'000;

/// Segments of ten seconds and 100 bytes each: the i-th covers [10 i, 10 i + 10) s.
std::vector<SegmentInfo> stored(size_t count) {
  std::vector<SegmentInfo> segments(count);
  for (size_t i = 0; i < count; ++i) {
    SegmentInfo& s = segments[i];
    s.number = static_cast<uint32_t>(i);
    s.size = s.durable = 100;
    s.first_covered_ns = static_cast<int64_t>(i) * 10 * kS + 1;
    s.covered_ns = static_cast<int64_t>(i + 1) * 10 * kS;
    s.closed = true;
  }
  return segments;
}

struct Wanted {
  int64_t start_s, end_s;  // end 0: records
  double max_age_s = 0;
  uint64_t max_bytes = 0;
  size_t nodes = 1;
};

SessionRecord session(const Wanted& w) {
  SessionRecord s;
  s.start_ns = w.start_s * kS + 1;
  s.end_ns = w.end_s * kS;
  s.max_age_s = w.max_age_s;
  s.max_bytes = w.max_bytes;
  s.nodes.assign(w.nodes, "n");
  return s;
}

TEST(Retention, WhatMayGo) {
  using Indexes = std::vector<size_t>;
  const struct {
    const char* what;
    std::vector<Wanted> sessions;
    int64_t now_s;
    Indexes gone;
  } kCases[] = {
      {"without sessions nothing is removed", {}, 60, {}},
      {"without limits nothing is removed", {{20, 0}}, 60, {}},
      {"older than its age goes, and what no session wants", {{20, 0, 25}}, 60, {0, 1, 2}},
      {"an age that reaches back to the start keeps all of the session", {{0, 0, 60}}, 60, {}},
      {"a session that ended keeps its last seconds, however old", {{0, 40, 15}}, 10000, {0, 1, 4, 5}},
      {"as many bytes as it may have", {{0, 0, 0, 250}}, 60, {0, 1, 2, 3}},
      {"each node has its share of the bytes", {{0, 0, 0, 500, 2}}, 60, {0, 1, 2, 3}},
      {"age and bytes: whichever is stricter", {{0, 0, 1000, 150}}, 60, {0, 1, 2, 3, 4}},
      {"what another session wants stays", {{0, 0, 15}, {0, 25}}, 60, {3}},
      {"nothing wants it, but somebody asked for limits", {{50, 0, 1000}}, 60, {0, 1, 2, 3, 4}},
  };
  for (const auto& c : kCases) {
    std::vector<SessionRecord> sessions;
    for (const Wanted& w : c.sessions) sessions.push_back(session(w));
    // The seventh is the newest: it still grows.
    std::vector<SegmentInfo> segments = stored(7);
    segments[6].closed = false;
    EXPECT_EQ(removable(segments, sessions, c.now_s * kS), c.gone) << c.what;
  }
}

TEST(Retention, WhatIsNotDoneStays) {
  const std::vector<SessionRecord> sessions = {session({1000, 0, 1})};
  std::vector<SegmentInfo> segments = stored(5);
  segments[0].closed = false;
  segments[1].durable = 99;  // not acknowledged: the agent would send it again
  segments[2].covered_ns = 0;
  EXPECT_EQ(removable(segments, sessions, 2000 * kS), std::vector<size_t>{3});
  EXPECT_TRUE(removable({}, sessions, 0).empty());
  EXPECT_TRUE(removable(stored(1), sessions, 2000 * kS).empty());  // the newest
}

}  // namespace
}  // namespace tracesmith::cluster
