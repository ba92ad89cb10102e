// Sums over a stretch of some tracks. Blocks that lie in the window whole are not read.
#include <algorithm>
#include <set>

#include "analysis/rows/rank_rows.hpp"
#include "model/travel_json.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

constexpr size_t kTopNames = 100;

struct Sum {
  uint64_t count = 0;
  int64_t total = 0, min = INT64_MAX, max = INT64_MIN;
  void add(uint64_t n, int64_t sum, int64_t low, int64_t high) {
    count += n;
    total += sum;
    min = std::min(min, low);
    max = std::max(max, high);
  }
};

model::TypeSum sumOf(uint8_t type, const Sum& s) {
  return {
      rowTypeName(type), s.count, s.total, static_cast<double>(s.total) / static_cast<double>(s.count), s.min, s.max};
}

}  // namespace

std::string Timeline::stats(const TileQuery& q) {
  std::vector<bool> wanted(index_->tracks.size());
  for (uint32_t t : q.tracks) wanted[t] = true;
  std::map<std::pair<uint32_t, uint8_t>, Sum> by_name;
  std::vector<uint32_t> edges;
  for (uint32_t b : blocksOf(q, wanted)) {
    const BlockSummary& s = index_->blocks[b];
    if (s.start < q.from || s.end > q.to || !s.whole) {
      edges.push_back(b);
      continue;
    }
    for (const NameStats& n : s.names)
      if (wanted[n.track]) by_name[{n.name, static_cast<uint8_t>(n.type)}].add(n.count, n.total, n.min, n.max);
  }
  // Of rows at the edges, what lies in the window.
  constexpr size_t kAtOnce = 64;
  for (size_t at = 0; at < edges.size(); at += kAtOnce) {
    const std::vector<uint32_t> part(edges.begin() + static_cast<ptrdiff_t>(at),
                                     edges.begin() + static_cast<ptrdiff_t>(std::min(edges.size(), at + kAtOnce)));
    for (const Rows& decoded : rows(part)) {
      if (!decoded) continue;
      const TimelineRows& r = *decoded;
      for (size_t i = 0; i < r.size(); ++i) {
        if (r.track[i] == kNoTrack || !wanted[r.track[i]]) continue;
        const int64_t start = std::max(r.ts[i], q.from), end = std::min(r.ts[i] + r.dur[i], q.to);
        if (end < start || r.ts[i] >= q.to) continue;
        by_name[{r.name[i], r.type[i]}].add(1, end - start, end - start, end - start);
      }
    }
  }
  std::map<uint8_t, Sum> by_type;
  int64_t device_ns = 0;
  for (const auto& [key, s] : by_name) {
    by_type[key.second].add(s.count, s.total, s.min, s.max);
    const auto event_type = static_cast<trace::EventType>(key.second);
    if (key.second < trace::kEventTypes && trace::isDeviceType(event_type) &&
        event_type != trace::EventType::gpu_annotation)
      device_ns += s.total;
  }
  int64_t stream_ns = 0;
  for (uint32_t t : q.tracks)
    if (index_->tracks[t].key.kind == TrackKind::stream) stream_ns += recorded(index_->tracks[t], q.from, q.to);
  std::vector<std::pair<std::pair<uint32_t, uint8_t>, Sum>> top(by_name.begin(), by_name.end());
  std::sort(top.begin(), top.end(), [](const auto& a, const auto& b) { return a.second.total > b.second.total; });

  model::TimelineStats out;
  out.span_ns = q.to - q.from;
  for (size_t i = 0; i < top.size() && i < kTopNames; ++i)
    out.by_name.push_back({sumOf(top[i].first.second, top[i].second), rowName(names_, top[i].first.first)});
  out.names = top.size();
  for (const auto& [type, s] : by_type) out.by_type.push_back(sumOf(type, s));
  // Of the streams: device work over the time they were recorded. Threads nest, so a share of theirs would mean
  // nothing. Of a summary most of the work is not among the rows.
  if (stream_ns > 0 && !analysis::isSummary(*reader_))
    out.busy_share = std::min(1.0, static_cast<double>(device_ns) / static_cast<double>(stream_ns));
  return model::toJson(out);
}

}  // namespace tracesmith::server
