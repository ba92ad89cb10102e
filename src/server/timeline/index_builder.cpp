#include "server/timeline/index_builder.hpp"

#include <algorithm>
#include <bit>

#include "base/natural_order.hpp"
#include "base/parallel.hpp"
#include "sync/recording_span.hpp"

namespace tracesmith::server {
namespace {

constexpr int kFinest = 16;          // 2^16 buckets over the whole trace, where events are that dense
constexpr int64_t kLongPart = 1024;  // an event of more than this part of the trace is long
constexpr size_t kNamesPerBlock = 4096;

bool shownBefore(const TrackKey& a, const TrackKey& b, const trace::NameNumbers& names) {
  auto process = [](int64_t p) { return p >= 0 ? std::pair(0, p) : p == -1 ? std::pair(2, p) : std::pair(1, -p); };
  auto thread = [](int64_t t) { return std::pair(isOtherThread(t), t); };  // last
  // A stream's ranges are above it, and a thread's Python frames below it.
  auto family = [](TrackKind k) {
    if (k == TrackKind::gpu_ranges) return TrackKind::stream;
    return k == TrackKind::python ? TrackKind::thread : k;
  };
  if (a.node != b.node)
    if (const int order = naturalOrder(names.text(a.node), names.text(b.node)); order != 0) return order < 0;
  return std::tuple(process(a.process), family(a.kind), a.major, thread(a.minor), a.kind, a.node) <
         std::tuple(process(b.process), family(b.kind), b.major, thread(b.minor), b.kind, b.node);
}

}  // namespace

struct IndexBuilder::Worker {
  RowDecoder decoder;
  TrackNumbers numbers;
  TimelineRows rows;
  std::vector<TrackBuilder> builders;
  std::vector<std::vector<uint32_t>> blocks;  // by track
  struct Key {
    uint32_t track, name, type;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      return ((k.track * 0x9E3779B97F4A7C15ull) ^ k.name) * 0xBF58476D1CE4E5B9ull >> 8 ^ k.type;
    }
  };
  std::unordered_map<Key, NameStats, Hash> stats;

  Worker(const trace::Reader& reader, const trace::NameNumbers& names, const trace::Clocks& clocks)
      : decoder(reader, names, clocks) {}
};

IndexBuilder::IndexBuilder() = default;
IndexBuilder::~IndexBuilder() = default;

/// The rows of one block, into the buckets of their tracks and the block's summary (with this worker's track numbers).
void IndexBuilder::absorb(Worker& w, uint32_t summary, int64_t origin, uint32_t shift, int64_t long_ns,
                          BlockSummary& out) {
  w.stats.clear();
  out.start = INT64_MAX;
  out.end = INT64_MIN;
  Worker::Key last_key{kNoTrack, 0, 0};
  NameStats* last = nullptr;
  for (size_t r = 0; r < w.rows.size(); ++r) {
    const uint32_t track = w.rows.track[r];
    if (track == kNoTrack) continue;
    while (w.builders.size() <= track) {
      w.builders.emplace_back(shift, long_ns);
      w.blocks.emplace_back();
    }
    const int64_t ts = std::max<int64_t>(0, w.rows.ts[r] - origin), dur = w.rows.dur[r];
    w.builders[track].add(ts, dur, w.rows.name[r], w.rows.type[r]);
    if (w.blocks[track].empty() || w.blocks[track].back() != summary) w.blocks[track].push_back(summary);
    out.start = std::min(out.start, ts);
    out.end = std::max(out.end, ts + dur);
    Worker::Key key{track, w.rows.name[r], w.rows.type[r]};
    if (out.whole && w.stats.size() >= kNamesPerBlock && !w.stats.contains(key)) {
      // Too many to list: from here on the tracks alone, and what was listed under them.
      out.whole = 0;
      std::unordered_map<Worker::Key, NameStats, Worker::Hash> by_track;
      for (const auto& [k, s] : w.stats) {
        NameStats& t = by_track[{k.track, trace::kNoName, 0}];
        t = {k.track, trace::kNoName, 0, t.count + s.count, 0, 0, 0};
      }
      w.stats = std::move(by_track);
      last = nullptr;
    }
    if (!out.whole) key = {track, trace::kNoName, 0};
    if (!last || !(key == last_key)) {
      last = &w.stats[key];
      last_key = key;
    }
    const bool first = last->count == 0;
    last->track = track;
    last->name = key.name;
    last->type = key.type;
    ++last->count;
    if (!out.whole) continue;
    last->total += dur;
    last->min = first ? dur : std::min(last->min, dur);
    last->max = first ? dur : std::max(last->max, dur);
  }
  for (const auto& [key, s] : w.stats) out.names.push_back(s);
  if (out.start > out.end) out.start = out.end = 0;
}

/// From when to when the trace goes, and how fine its buckets are. What was read before is placed anew: a newer model
/// of a clock may have moved it by a little. False: it moved by more than a bucket, or something came that is older
/// than all there was.
bool IndexBuilder::findSpan(const trace::Reader& reader, const trace::Clocks& clocks) {
  sync::BlockSpans spans(reader, clocks);
  const std::span<const trace::Block> all = reader.blocks();
  int64_t start = summaries_.empty() ? INT64_MAX : origin_;
  int64_t end = summaries_.empty() ? INT64_MIN : end_;
  for (BlockSummary& s : summaries_)
    if (const auto span = spans.of(all[s.block])) {
      const int64_t moved = std::max(std::abs(span->start - origin_ - s.start), std::abs(span->end - origin_ - s.end));
      if (moved > int64_t{1} << shift_) return false;
      s.start = std::max<int64_t>(0, span->start - origin_);
      s.end = std::max(s.start, span->end - origin_);
      end = std::max(end, span->end);
    }
  std::vector<uint32_t> fresh;
  for (; seen_ < all.size(); ++seen_) {
    const auto span = isDrawn(*all[seen_].table) ? spans.of(all[seen_]) : std::nullopt;
    if (!span && !mayBeInFlight(all[seen_])) continue;
    if (span && !summaries_.empty() && span->start < origin_) return false;
    if (span) {
      start = std::min(start, span->start);
      end = std::max(end, span->end);
    }
    fresh.push_back(static_cast<uint32_t>(seen_));
  }
  for (uint32_t block : fresh) summaries_.emplace_back().block = block;
  if (start > end) start = end = 0;
  origin_ = start;
  end_ = end;
  const auto duration = std::max<int64_t>(1, end - start);
  shift_ = static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(duration) >> kFinest));
  long_ns_ = std::max<int64_t>(1, duration / kLongPart);
  for (TrackBuilder& b : builders_) b.grow(shift_, long_ns_);
  return true;
}

Status IndexBuilder::add(const trace::Reader& reader, const trace::NameNumbers& names, const trace::Clocks& clocks,
                         size_t threads, std::atomic<int>& progress, const std::atomic<bool>& stop) {
  size_t first = summaries_.size();
  if (!findSpan(reader, clocks)) {
    *this = IndexBuilder();
    first = 0;
    (void)findSpan(reader, clocks);
  }
  const size_t count = summaries_.size() - first;
  threads = std::max<size_t>(1, std::min(threads, count));
  std::vector<std::unique_ptr<Worker>> workers;
  // Who still waits does so to the end of the recording, of which metrics tell where nothing else happens any more.
  const auto in_flight = std::make_shared<InFlight>(reader, names);
  if (in_flight->any()) {
    sync::BlockSpans spans(reader, clocks);
    for (const trace::Block* block : reader.blocks(trace::tableOf<trace::MetricRow>()))
      if (const auto span = spans.of(*block)) end_ = std::max(end_, span->end);
  }
  in_flight->setEnd(end_);
  for (size_t i = 0; i < threads; ++i) {
    workers.push_back(std::make_unique<Worker>(reader, names, clocks));
    workers.back()->decoder.setInFlight(in_flight);
  }
  std::vector<uint32_t> made_by(count);
  std::atomic<size_t> done{0};
  parallelFor(count, threads, [&](size_t i, size_t worker) {
    Worker& w = *workers[worker];
    made_by[i] = static_cast<uint32_t>(worker);
    if (stop) return;
    BlockSummary& s = summaries_[first + i];
    if (w.decoder.decode(reader.blocks()[s.block], w.numbers, w.rows))  // else it is in reader.damage()
      absorb(w, static_cast<uint32_t>(first + i), origin_, shift_, long_ns_, s);
    progress = static_cast<int>(++done * 1000 / count);
  });
  if (stop) return Status::cancelled("stopped");
  unite(workers, made_by, first);
  return {};
}

/// Workers numbered tracks as they met them: now with one numbering.
void IndexBuilder::unite(std::vector<std::unique_ptr<Worker>>& workers, const std::vector<uint32_t>& made_by,
                         size_t first) {
  std::vector<std::vector<uint32_t>> number_of(workers.size());
  for (size_t k = 0; k < workers.size(); ++k) {
    Worker& w = *workers[k];
    for (size_t t = 0; t < w.numbers.keys().size(); ++t) {
      const uint32_t n = numbers_.of(w.numbers.keys()[t]);
      number_of[k].push_back(n);
      const bool known = n < builders_.size();
      while (builders_.size() <= n) {
        builders_.emplace_back(shift_, long_ns_);
        blocks_of_.emplace_back();
      }
      if (t >= w.builders.size()) continue;
      if (known)
        builders_[n].take(std::move(w.builders[t]));
      else
        builders_[n] = std::move(w.builders[t]);
      blocks_of_[n].insert(blocks_of_[n].end(), w.blocks[t].begin(), w.blocks[t].end());
    }
    w.builders.clear();
  }
  for (size_t i = 0; i < made_by.size(); ++i)
    for (NameStats& s : summaries_[first + i].names) s.track = number_of[made_by[i]][s.track];
}

std::unique_ptr<TimelineIndex> IndexBuilder::index(const trace::NameNumbers& names, bool last) {
  auto index = std::make_unique<TimelineIndex>();
  index->origin = origin_;
  index->duration = std::max<int64_t>(1, end_ - origin_);
  // In the order of the page.
  std::vector<uint32_t> order(builders_.size()), place(builders_.size());
  for (uint32_t n = 0; n < order.size(); ++n) order[n] = n;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return shownBefore(numbers_.keys()[a], numbers_.keys()[b], names); });
  index->tracks.resize(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    const uint32_t n = order[i];
    place[n] = i;
    TrackIndex& t = index->tracks[i];
    t.key = numbers_.keys()[n];
    builders_[n].write(t);
    if (last) builders_[n] = TrackBuilder(shift_, long_ns_);
    t.blocks = blocks_of_[n];
    std::sort(t.blocks.begin(), t.blocks.end());
  }
  if (last)
    index->blocks = std::move(summaries_);
  else
    index->blocks = summaries_;
  for (BlockSummary& b : index->blocks) {
    for (NameStats& s : b.names) s.track = place[s.track];
    std::sort(b.names.begin(), b.names.end(), [](const NameStats& x, const NameStats& y) {
      return std::tuple(x.track, x.name, x.type) < std::tuple(y.track, y.name, y.type);
    });
    b.names.shrink_to_fit();
  }
  index->connect();
  return index;
}

}  // namespace tracesmith::server
