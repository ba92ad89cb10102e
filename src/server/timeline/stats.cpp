// Sums over a stretch of some tracks, and rows found by their name. Blocks that lie in the window whole are not read.
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

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
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
    if (key.second < trace::kEventTypes && trace::isDeviceType(static_cast<trace::EventType>(key.second)))
      device_ns += s.total;
  }
  int64_t streams = 0;
  for (uint32_t t : q.tracks) streams += index_->tracks[t].key.kind == TrackKind::stream;
  std::vector<std::pair<std::pair<uint32_t, uint8_t>, Sum>> top(by_name.begin(), by_name.end());
  std::sort(top.begin(), top.end(), [](const auto& a, const auto& b) { return a.second.total > b.second.total; });

  model::TimelineStats out;
  out.span_ns = q.to - q.from;
  for (size_t i = 0; i < top.size() && i < kTopNames; ++i)
    out.by_name.push_back({sumOf(top[i].first.second, top[i].second), rowName(names_, top[i].first.first)});
  out.names = top.size();
  for (const auto& [type, s] : by_type) out.by_type.push_back(sumOf(type, s));
  // Of the streams: device work over their time. Threads nest, so a share of theirs would mean nothing.
  // Of a summary most of the work is not among the rows.
  if (streams > 0 && !analysis::isSummary(*reader_))
    out.busy_share = std::min(
        1.0, static_cast<double>(device_ns) / (static_cast<double>(q.to - q.from) * static_cast<double>(streams)));
  return model::toJson(out);
}

std::string Timeline::search(const std::string& text, size_t limit) {
  const std::string want = lower(text);
  std::vector<bool> matches(names_.size());
  for (uint32_t n = 0; n < names_.size(); ++n) matches[n] = lower(names_.text(n)).find(want) != std::string::npos;
  auto match = [&](uint32_t name) {
    if (name == trace::kNoName) return false;
    if (name & (kStepName | kStackName)) return lower(rowName(names_, name)).find(want) != std::string::npos;
    return name < matches.size() && matches[name];
  };
  struct Hit {
    int64_t ts, dur;
    uint32_t track, name, summary, row;
    uint8_t type;
  };
  uint64_t total = 0;
  std::vector<std::pair<int64_t, uint32_t>> blocks;  // with a hit, by time
  for (uint32_t b = 0; b < index_->blocks.size(); ++b) {
    const BlockSummary& s = index_->blocks[b];
    uint64_t here = 0;
    for (const NameStats& n : s.names) here += match(n.name) ? n.count : 0;
    total += here;
    if (here > 0 || !s.whole) blocks.emplace_back(s.start, b);
  }
  std::sort(blocks.begin(), blocks.end());
  std::vector<Hit> hits;
  for (auto [start, b] : blocks) {
    if (hits.size() >= limit && index_->blocks[b].whole) break;
    const Rows decoded = decode(b);
    if (!decoded) continue;
    const TimelineRows& r = *decoded;
    for (uint32_t i = 0; i < r.size(); ++i) {
      if (r.track[i] == kNoTrack || !match(r.name[i])) continue;
      if (!index_->blocks[b].whole) ++total;
      if (hits.size() < 4 * limit) hits.push_back({r.ts[i], r.dur[i], r.track[i], r.name[i], b, i, r.type[i]});
    }
  }
  std::sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.ts < b.ts; });
  if (hits.size() > limit) hits.resize(limit);
  model::SearchAnswer out{total, {}, total > hits.size()};
  for (const Hit& h : hits)
    out.hits.push_back({h.track, h.ts, h.dur, rowName(names_, h.name), rowTypeName(h.type), rowId(h.summary, h.row)});
  return model::toJson(out);
}

}  // namespace tracesmith::server
