// What a stretch of some tracks looks like: exact slices where they are few, buckets where they are many.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/communication.hpp"
#include "model/travel_json.hpp"
#include "server/timeline/levels.hpp"
#include "server/timeline/timeline.hpp"

namespace tracesmith::server {

/// Numbers of the names an answer uses.
class Timeline::NameList {
 public:
  size_t of(uint32_t name) {
    auto [it, added] = numbers_.try_emplace(name, list_.size());
    if (added) list_.push_back(name);
    return it->second;
  }
  const std::vector<uint32_t>& list() const { return list_; }

 private:
  std::unordered_map<uint32_t, size_t> numbers_;
  std::vector<uint32_t> list_;
};

namespace {

constexpr uint64_t kSlicesPerBucket = 4;    // of a track: more than this cannot be told apart
constexpr uint64_t kSlices = 40'000;        // of an answer
constexpr size_t kNewBlocks = 16;           // decoded for one answer where buckets would do as well
constexpr size_t kBlocks = 96;              // and where they are too wide, or cannot tell levels apart
constexpr int64_t kLongPart = 64;           // a slice this part of the window long is given beside buckets
constexpr size_t kLevels = 48;              // of buckets; what is deeper is in the last
constexpr uint64_t kExactRows = 4'000'000;  // read to make buckets where the index is too coarse

/// A bucket of the answer.
struct Cell {
  double busy = 0, count = 0, vote = 0;
  uint32_t name = trace::kNoName;
  uint8_t type = 0;
  void vote_for(uint32_t other, uint8_t other_type, double weight) {
    if (name == other) {
      vote += weight;
    } else if (vote >= weight) {
      vote -= weight;
    } else {
      vote = weight - vote;
      name = other;
      type = other_type;
    }
  }
};

class Cells {
 public:
  Cells(const TileQuery& q)
      : from_(q.from),
        to_(q.to),
        width_(static_cast<double>(q.to - q.from) / static_cast<double>(q.width)),
        cells_(static_cast<size_t>(q.width)) {}

  /// Something that was busy for `busy` ns of [start, end), evenly.
  void add(int64_t start, int64_t end, double busy, double count, uint32_t name, uint8_t type) {
    if (end <= from_ || start >= to_) return;
    const double length = static_cast<double>(end - start);
    const int64_t first_ns = std::max(start, from_), last_ns = std::min(end, to_);
    const size_t first = cellOf(first_ns), last = cellOf(last_ns - 1);
    for (size_t i = first; i <= last; ++i) {
      const double a = std::max<double>(static_cast<double>(first_ns - from_), static_cast<double>(i) * width_);
      const double b = std::min<double>(static_cast<double>(last_ns - from_), static_cast<double>(i + 1) * width_);
      const double part = length > 0 ? std::max(0.0, b - a) / length : 1;
      Cell& c = cells_[i];
      c.busy += busy * part;
      c.count += count * part;
      c.vote_for(name, type, std::max(busy, 1e-3) * part);
    }
  }
  /// One event, counted where it starts.
  void event(int64_t ts, int64_t dur, uint32_t name, uint8_t type) {
    add(ts, ts + std::max<int64_t>(1, dur), static_cast<double>(dur), 0, name, type);
    if (ts >= from_ && ts < to_) cells_[cellOf(ts)].count += 1;
  }

  template <typename Names>
  void buckets(Names& names, size_t depth, std::vector<model::TileBucket>& out) const {
    for (size_t i = 0; i < cells_.size(); ++i) {
      const Cell& c = cells_[i];
      if (c.busy <= 0 && c.count <= 0) continue;
      out.push_back({i, std::min(1.0, c.busy / width_),
                     static_cast<uint64_t>(std::max<long long>(c.count > 0, std::llround(c.count))), names.of(c.name),
                     c.type, depth});
    }
  }

 private:
  size_t cellOf(int64_t ns) const {
    return std::min(cells_.size() - 1, static_cast<size_t>(static_cast<double>(ns - from_) / width_));
  }
  int64_t from_, to_;
  double width_;
  std::vector<Cell> cells_;
};

auto firstBucket(const TrackIndex& t, int64_t from) {
  const int64_t index = std::max<int64_t>(0, from) >> t.shift;
  return std::lower_bound(t.buckets.begin(), t.buckets.end(), index,
                          [](const Bucket& b, int64_t i) { return static_cast<int64_t>(b.index) < i; });
}

}  // namespace

/// About how many events of a track lie in the window.
uint64_t Timeline::eventsIn(const TrackIndex& t, int64_t from, int64_t to) const {
  if (from <= 0 && to >= index_->duration) return t.events;
  double n = 0;
  const auto width = static_cast<double>(int64_t{1} << t.shift);
  for (auto b = firstBucket(t, from); b != t.buckets.end(); ++b) {
    const int64_t start = static_cast<int64_t>(b->index) << t.shift, end = start + (int64_t{1} << t.shift);
    if (start >= to) break;
    n += b->count * static_cast<double>(std::min(end, to) - std::max(start, from)) / width;
  }
  for (const LongEvent& e : t.longs) {
    if (e.ts >= to) break;
    n += e.ts + e.dur >= from;
  }
  return static_cast<uint64_t>(std::ceil(n));
}

/// Blocks with a wanted track that touch the window.
std::vector<uint32_t> Timeline::blocksOf(const TileQuery& q, const std::vector<bool>& wanted) const {
  std::vector<uint32_t> blocks;
  for (uint32_t track : q.tracks) {
    if (!wanted[track]) continue;
    for (uint32_t b : index_->tracks[track].blocks)
      if (index_->blocks[b].start < q.to && index_->blocks[b].end >= q.from) blocks.push_back(b);
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

std::vector<std::vector<Timeline::Slice>> Timeline::slices(const TileQuery& q, const std::vector<bool>& wanted) {
  std::vector<std::vector<Slice>> found(index_->tracks.size());
  const std::vector<uint32_t> blocks = blocksOf(q, wanted);
  const std::vector<Rows> decoded = rows(blocks);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!decoded[i]) continue;
    const TimelineRows& r = *decoded[i];
    for (size_t row = 0; row < r.size(); ++row) {
      if (r.ts[row] >= q.to || r.ts[row] + r.dur[row] < q.from || r.track[row] == kNoTrack || !wanted[r.track[row]])
        continue;
      found[r.track[row]].push_back(
          {r.ts[row], r.dur[row], r.name[row], blocks[i], static_cast<uint32_t>(row), r.type[row]});
    }
  }
  for (std::vector<Slice>& list : found)
    std::sort(list.begin(), list.end(), [](const Slice& a, const Slice& b) {
      return std::tuple(a.ts, -a.dur, a.summary, a.row) < std::tuple(b.ts, -b.dur, b.summary, b.row);
    });
  return found;
}

std::vector<model::TileSlice> Timeline::drawnSlices(const std::vector<Slice>& list, int64_t least_ns,
                                                    NameList& names) const {
  std::vector<model::TileSlice> out;
  Levels levels;
  for (const Slice& s : list)
    if (const size_t level = levels.of(s.ts, s.dur); s.dur >= least_ns)
      out.push_back({s.ts, s.dur, names.of(s.name), s.type, rowId(s.summary, s.row), level});
  return out;
}

uint64_t Timeline::depthOf(const Place& place) {
  const Rows drawn = decode(place.summary);
  if (!drawn || drawn->track[place.row] == kNoTrack) return 0;
  const uint32_t track = drawn->track[place.row];
  if (index_->tracks[track].depth < 2) return 0;
  std::vector<bool> wanted(index_->tracks.size());
  wanted[track] = true;
  const int64_t ts = drawn->ts[place.row];
  const std::vector<std::vector<Slice>> around = slices({ts, ts + 1, 1, {track}}, wanted);
  Levels levels;
  for (const Slice& s : around[track]) {
    const size_t level = levels.of(s.ts, s.dur);
    if (s.summary == place.summary && s.row == place.row) return level;
  }
  return 0;
}

std::string Timeline::tiles(const TileQuery& q) {
  const int64_t bucket_ns = std::max<int64_t>(1, (q.to - q.from) / q.width);
  // Which tracks are few enough for slices, and which have buckets that are too wide: fewest events first.
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (uint32_t track : q.tracks) order.emplace_back(eventsIn(index_->tracks[track], q.from, q.to), track);
  std::sort(order.begin(), order.end());
  std::vector<bool> exact(index_->tracks.size()), drawn(index_->tracks.size()), seen(index_->blocks.size());
  uint64_t slices_left = kSlices, rows_left = kExactRows;
  size_t blocks_used = 0;
  for (auto [events, track] : order) {
    const TrackIndex& t = index_->tracks[track];
    const bool few = events <= kSlicesPerBucket * static_cast<uint64_t>(q.width) && events <= slices_left;
    const bool coarse = (int64_t{1} << t.shift) > 2 * bucket_ns || t.depth > 1;
    if (!few && !coarse) continue;
    size_t more = 0;
    uint64_t read = 0;
    for (uint32_t b : t.blocks)
      if (index_->blocks[b].start < q.to && index_->blocks[b].end >= q.from && !seen[b]) {
        more += !isCached(b);
        read += reader_->blocks()[index_->blocks[b].block].rows;
      }
    if (blocks_used + more > (coarse ? kBlocks : kNewBlocks) || read > rows_left) continue;
    blocks_used += more;
    rows_left -= read;
    for (uint32_t b : t.blocks)
      if (index_->blocks[b].start < q.to && index_->blocks[b].end >= q.from) seen[b] = true;
    exact[track] = true;
    if (few) {
      slices_left -= events;
      drawn[track] = true;
    }
  }
  const std::vector<std::vector<Slice>> found = slices(q, exact);

  NameList names;
  model::TileAnswer answer;
  answer.from = q.from;
  answer.to = q.to;
  for (uint32_t track : q.tracks) {
    model::TileTrack& out = answer.tracks.emplace_back();
    out.id = track;
    if (drawn[track]) {
      out.detail = model::TileDetail::slices;
      out.slices = drawnSlices(found[track], 0, names);
      continue;
    }
    const TrackIndex& t = index_->tracks[track];
    if (exact[track]) {
      std::vector<Cells> by_level;
      Levels levels;
      for (const Slice& s : found[track]) {
        const size_t level = std::min(levels.of(s.ts, s.dur), kLevels - 1);
        while (by_level.size() <= level) by_level.emplace_back(q);
        by_level[level].event(s.ts, s.dur, s.name, s.type);
      }
      for (size_t level = 0; level < by_level.size(); ++level) by_level[level].buckets(names, level, out.buckets);
      // Where stacks are seen from afar, what is long keeps its name.
      if (t.depth > 1) out.slices = drawnSlices(found[track], (q.to - q.from) / kLongPart, names);
    } else {
      Cells cells(q);
      for (auto b = firstBucket(t, q.from); b != t.buckets.end(); ++b) {
        const int64_t start = static_cast<int64_t>(b->index) << t.shift;
        if (start >= q.to) break;
        cells.add(start, start + (int64_t{1} << t.shift), b->busy_ns, b->count, b->name, static_cast<uint8_t>(b->type));
      }
      for (const LongEvent& e : t.longs) {
        if (e.ts >= q.to) break;
        cells.event(e.ts, e.dur, e.name, static_cast<uint8_t>(e.type));
      }
      cells.buckets(names, 0, out.buckets);
    }
  }
  for (uint32_t name : names.list()) {
    answer.names.push_back(rowName(names_, name));
    if (model::isCommunication(answer.names.back())) answer.communication.push_back(answer.names.size() - 1);
  }
  return model::toJson(answer);
}

}  // namespace tracesmith::server
