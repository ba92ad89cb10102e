#include <algorithm>
#include <bit>
#include <map>

#include "base/parallel.hpp"
#include "server/timeline/index.hpp"
#include "server/timeline/track_builder.hpp"

namespace tracesmith::server {
namespace {

constexpr int kFinest = 16;          // 2^16 buckets over the whole trace, where events are that dense
constexpr int64_t kLongPart = 1024;  // an event of more than this part of the trace is long
constexpr size_t kNamesPerBlock = 4096;

struct Worker {
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

  Worker(const trace::Reader& reader, const analysis::Names& names, const analysis::ClockModels& clocks)
      : decoder(reader, names, clocks) {}
};

/// The rows of one block, into the buckets of their tracks and the block's summary (with this worker's track numbers).
void absorb(Worker& w, uint32_t summary, int64_t origin, uint32_t shift, int64_t long_ns, BlockSummary& out) {
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
        NameStats& t = by_track[{k.track, analysis::kNoName, 0}];
        t = {k.track, analysis::kNoName, 0, t.count + s.count, 0, 0, 0};
      }
      w.stats = std::move(by_track);
      last = nullptr;
    }
    if (!out.whole) key = {track, analysis::kNoName, 0};
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

bool shownBefore(const TrackKey& a, const TrackKey& b, const analysis::Names& names) {
  auto process = [](int64_t p) { return p >= 0 ? std::pair(0, p) : std::pair(1, -p); };
  if (a.node != b.node)
    if (const int order = names.text(a.node).compare(names.text(b.node)); order != 0) return order < 0;
  return std::tuple(process(a.process), a.kind, a.major, a.minor, a.node) <
         std::tuple(process(b.process), b.kind, b.major, b.minor, b.node);
}

}  // namespace

Result<std::unique_ptr<TimelineIndex>> TimelineIndex::build(const trace::Reader& reader, const analysis::Names& names,
                                                            const analysis::ClockModels& clocks, size_t threads,
                                                            std::atomic<int>& progress, const std::atomic<bool>& stop) {
  auto index = std::make_unique<TimelineIndex>();
  const std::span<const trace::Block> all = reader.blocks();
  RowDecoder spans(reader, names, clocks);
  int64_t start = INT64_MAX, end = INT64_MIN;
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t from, to;
    if (!isDrawn(*all[i].table) || !spans.span(all[i], from, to)) continue;
    start = std::min(start, from);
    end = std::max(end, to);
    index->blocks.emplace_back().block = static_cast<uint32_t>(i);
  }
  if (start > end) start = end = 0;
  index->origin = start;
  index->duration = std::max<int64_t>(1, end - start);
  const auto shift = static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(index->duration) >> kFinest));
  const int64_t long_ns = std::max<int64_t>(1, index->duration / kLongPart);

  threads = std::max<size_t>(1, std::min(threads, index->blocks.size()));
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t i = 0; i < threads; ++i) workers.push_back(std::make_unique<Worker>(reader, names, clocks));
  std::vector<uint32_t> made_by(index->blocks.size());
  std::atomic<size_t> done{0};
  parallelFor(index->blocks.size(), threads, [&](size_t i, size_t worker) {
    Worker& w = *workers[worker];
    made_by[i] = static_cast<uint32_t>(worker);
    if (stop) return;
    if (w.decoder.decode(all[index->blocks[i].block], w.numbers, w.rows))  // else it is in reader.damage()
      absorb(w, static_cast<uint32_t>(i), start, shift, long_ns, index->blocks[i]);
    progress = static_cast<int>(++done * 1000 / index->blocks.size());
  });
  if (stop) return Status::exhausted("stopped");

  // Workers numbered tracks as they met them: now in the order of the page.
  std::vector<TrackKey> keys;
  for (const auto& w : workers)
    for (const TrackKey& key : w->numbers.keys())
      if (index->number_of.try_emplace(key, 0).second) keys.push_back(key);
  std::sort(keys.begin(), keys.end(), [&](const TrackKey& a, const TrackKey& b) { return shownBefore(a, b, names); });
  for (size_t i = 0; i < keys.size(); ++i) index->number_of[keys[i]] = static_cast<uint32_t>(i);
  index->tracks.resize(keys.size());
  std::vector<std::unique_ptr<TrackBuilder>> builders(keys.size());
  std::vector<std::vector<uint32_t>> final_of(threads);
  for (size_t k = 0; k < threads; ++k) {
    Worker& w = *workers[k];
    for (size_t t = 0; t < w.numbers.keys().size(); ++t) {
      const uint32_t n = index->number_of[w.numbers.keys()[t]];
      final_of[k].push_back(n);
      index->tracks[n].key = keys[n];
      if (t >= w.builders.size()) continue;
      if (builders[n])
        builders[n]->take(std::move(w.builders[t]));
      else
        builders[n] = std::make_unique<TrackBuilder>(std::move(w.builders[t]));
      std::vector<uint32_t>& blocks = index->tracks[n].blocks;
      blocks.insert(blocks.end(), w.blocks[t].begin(), w.blocks[t].end());
    }
    w.builders.clear();
  }
  for (size_t n = 0; n < keys.size(); ++n) {
    if (builders[n]) builders[n]->finish(index->tracks[n]);
    builders[n].reset();
    std::sort(index->tracks[n].blocks.begin(), index->tracks[n].blocks.end());
  }
  for (size_t i = 0; i < index->blocks.size(); ++i) {
    std::vector<NameStats>& list = index->blocks[i].names;
    for (NameStats& s : list) s.track = final_of[made_by[i]][s.track];
    std::sort(list.begin(), list.end(), [](const NameStats& a, const NameStats& b) {
      return std::tuple(a.track, a.name, a.type) < std::tuple(b.track, b.name, b.type);
    });
    list.shrink_to_fit();
  }
  index->connect();
  return index;
}

}  // namespace tracesmith::server
