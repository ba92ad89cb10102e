// Rows found by a part of their name, by time. The index counts them; only blocks near the place asked for are read.
#include <algorithm>
#include <tuple>

#include "model/travel_json.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// Which names contain the text.
class NameMatch {
 public:
  NameMatch(const trace::NameNumbers& names, const std::string& text) : names_(names), want_(lower(text)) {
    matches_.resize(names.size());
    for (uint32_t n = 0; n < names.size(); ++n) matches_[n] = lower(names.text(n)).find(want_) != std::string::npos;
  }
  bool operator()(uint32_t name) const {
    if (name == trace::kNoName) return false;
    if (name & (kStepName | kStackName)) return lower(rowName(names_, name)).find(want_) != std::string::npos;
    return name < matches_.size() && matches_[name];
  }

 private:
  const trace::NameNumbers& names_;
  std::string want_;
  std::vector<bool> matches_;
};

struct Hit {
  int64_t ts, dur;
  uint32_t track, name, summary, row;
  uint8_t type;
  auto order() const { return std::tuple(ts, track, summary, row); }
};

/// The `limit` hits nearest to the place asked for.
class Nearest {
 public:
  Nearest(size_t limit, bool last) : limit_(limit), last_(last) {}
  void add(const Hit& h) {
    hits_.push_back(h);
    if (hits_.size() >= 2 * limit_ + 64) cut();
  }
  void cut() {
    std::sort(hits_.begin(), hits_.end(),
              [&](const Hit& a, const Hit& b) { return last_ ? b.order() < a.order() : a.order() < b.order(); });
    if (hits_.size() > limit_) hits_.resize(limit_);
  }
  /// Whether rows that begin then can still be among them.
  bool open(int64_t ts) {
    if (hits_.size() < limit_) return true;
    cut();
    return last_ ? ts >= hits_.back().ts : ts <= hits_.back().ts;
  }
  std::vector<Hit> take() {
    cut();
    if (last_) std::reverse(hits_.begin(), hits_.end());
    return std::move(hits_);
  }

 private:
  size_t limit_;
  bool last_;
  std::vector<Hit> hits_;
};

}  // namespace

std::string Timeline::search(const SearchQuery& q) {
  const NameMatch match(names_, q.text);
  std::vector<bool> wanted(index_->tracks.size(), q.tracks.empty());
  for (uint32_t t : q.tracks) wanted[t] = true;
  const bool last = q.to.has_value() && !q.from.has_value();
  const int64_t place = last ? *q.to : q.from.value_or(INT64_MIN);

  struct Part {
    uint32_t summary;
    bool counted;
  };
  std::vector<Part> parts;
  uint64_t total = 0, before = 0;
  for (uint32_t b = 0; b < index_->blocks.size(); ++b) {
    const BlockSummary& s = index_->blocks[b];
    uint64_t here = 0;
    bool exact = s.whole != 0, some = !exact;
    for (const NameStats& n : s.names) {
      if (!s.whole || !wanted[n.track] || !match(n.name) || (q.type && n.type != *q.type) || n.max < q.least_ns)
        continue;
      some = true;
      exact &= n.min >= q.least_ns;
      here += n.count;
    }
    if (!some) continue;
    if (exact) {
      total += here;
      if (s.end < place) before += here;
    }
    parts.push_back({b, exact});
  }
  std::sort(parts.begin(), parts.end(), [&](const Part& x, const Part& y) {
    const BlockSummary &a = index_->blocks[x.summary], &b = index_->blocks[y.summary];
    return last ? std::tuple(-a.end, x.summary) < std::tuple(-b.end, y.summary)
                : std::tuple(a.start, x.summary) < std::tuple(b.start, y.summary);
  });
  Nearest nearest(q.limit, last);
  for (const Part& part : parts) {
    const BlockSummary& s = index_->blocks[part.summary];
    // Of a block that was counted, rows are wanted only if it reaches the place, and some on that side may be near.
    const bool passed = s.end < place, ahead = s.start >= place;
    const bool near = last ? !ahead && nearest.open(s.end) : !passed && nearest.open(s.start);
    const bool split = !passed && !ahead;
    if (part.counted && !near && !split) continue;
    const Rows decoded = decode(part.summary);
    if (!decoded) continue;
    const TimelineRows& r = *decoded;
    for (uint32_t i = 0; i < r.size(); ++i) {
      if (r.track[i] == kNoTrack || !wanted[r.track[i]] || (q.type && r.type[i] != *q.type) || r.dur[i] < q.least_ns ||
          !match(r.name[i]))
        continue;
      if (!part.counted) ++total;
      if (r.ts[i] < place && (!part.counted || !passed)) ++before;
      if ((r.ts[i] < place) == last)
        nearest.add({r.ts[i], r.dur[i], r.track[i], r.name[i], part.summary, i, r.type[i]});
    }
  }
  const std::vector<Hit> hits = nearest.take();
  if (last) before -= std::min<uint64_t>(before, hits.size());
  model::SearchAnswer out{total, before, {}, total > hits.size()};
  for (const Hit& h : hits)
    out.hits.push_back(
        {h.track, h.ts, h.dur, rowName(names_, h.name), rowTypeName(h.type), rowId(h.summary, h.row), std::nullopt});
  return model::toJson(out);
}

}  // namespace tracesmith::server
