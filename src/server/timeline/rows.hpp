// The rows of a block as a timeline draws them: on the reference clock, each with its track.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "model/travel.hpp"
#include "trace/clocks.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::server {

using model::TrackKind;

/// What a track is: written to the index as it is.
struct TrackKey {
  uint32_t node = trace::kNoName;  ///< number of its name
  TrackKind kind = TrackKind::thread;
  uint8_t unused[3] = {};
  int64_t process = -1;          ///< rank, or −1 − pid
  int64_t major = trace::kNull;  ///< device of a stream
  int64_t minor = trace::kNull;  ///< stream, or tid of a thread
  bool operator==(const TrackKey&) const = default;
};
struct TrackKeyHash {
  size_t operator()(const TrackKey& k) const {
    auto mix = [](uint64_t h, uint64_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ull; };
    uint64_t h = mix(k.node, static_cast<uint64_t>(k.kind) + 1);
    h = mix(h, static_cast<uint64_t>(k.process));
    h = mix(h, static_cast<uint64_t>(k.major));
    return static_cast<size_t>(mix(h, static_cast<uint64_t>(k.minor)) >> 7);
  }
};

/// Types of rows: those of events, and four of ours.
constexpr uint8_t kCollectiveType = trace::kEventTypes, kStepType = trace::kEventTypes + 1,
                  kStackType = trace::kEventTypes + 2;
constexpr uint8_t kInFlightType = trace::kEventTypes + 3;  ///< a collective that had not begun when the recording ended
constexpr uint8_t kRowTypes = trace::kEventTypes + 4;
const char* rowTypeName(uint8_t type);

/// Numbers of names; those with the first bit are steps without one, called after their number; those with the second
/// are stacks, called after their innermost frame.
constexpr uint32_t kStepName = 0x80000000, kStackName = 0x40000000;
std::string rowName(const trace::NameNumbers& names, uint32_t name);

/// Whether the timeline draws the rows of this table.
bool isDrawn(const trace::TableInfo& table);

/// Columns side by side; `track` is whatever the decoder's lookup gave.
struct TimelineRows {
  std::vector<int64_t> ts, dur;  ///< reference clock; dur 0 where it is NULL
  std::vector<uint32_t> name, track;
  std::vector<uint8_t> type;
  size_t size() const { return ts.size(); }
  size_t bytes() const { return ts.size() * (2 * sizeof(int64_t) + 2 * sizeof(uint32_t) + 1); }
};

constexpr uint32_t kNoTrack = UINT32_MAX;

/// Importers give small negative numbers to what is no thread, such as Kineto's "Spans": all of it is on one track.
constexpr int64_t kOtherThread = -2;
constexpr bool isOtherThread(int64_t tid) { return tid <= kOtherThread && tid > -100'000; }

/// Gives tracks their numbers, in the order they are met.
class TrackNumbers {
 public:
  uint32_t of(const TrackKey& key) {
    if (last_ != kNoTrack && key == keys_[last_]) return last_;
    // Rows of a few tracks take turns: those met last are found without the map.
    uint32_t& recent = recent_[TrackKeyHash()(key) % recent_.size()];
    if (recent != kNoTrack && key == keys_[recent]) return last_ = recent;
    auto [it, added] = numbers_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
    if (added) keys_.push_back(key);
    return last_ = recent = it->second;
  }
  const std::vector<TrackKey>& keys() const { return keys_; }

 private:
  std::unordered_map<TrackKey, uint32_t, TrackKeyHash> numbers_;
  std::vector<TrackKey> keys_;
  std::vector<uint32_t> recent_ = std::vector<uint32_t>(256, kNoTrack);  // by hash
  uint32_t last_ = kNoTrack;
};

/// Whether a block may have collectives in flight: they have no time but that of their call.
bool mayBeInFlight(const trace::Block& block);

/// Which collectives wait to this day. Not those that later ones of their communicator have passed: they ran, and only
/// their kernels were not found.
class InFlight {
 public:
  InFlight(const trace::Reader& reader, const trace::NameNumbers& names);
  /// Whether any does.
  bool any() const { return any_; }
  /// Until when they last, on the reference clock.
  void setEnd(int64_t end) { end_ = end; }
  int64_t end() const { return end_; }
  bool waits(uint32_t node, int64_t process, int64_t comm, int64_t op, int64_t peer, int64_t called) const;

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // node, process, communicator, peer of a send or receive
  Key keyOf(int64_t node, int64_t process, int64_t comm, int64_t op, int64_t peer) const;

  int64_t end_ = INT64_MAX;
  bool any_ = false;
  int64_t send_ = trace::kNull, recv_ = trace::kNull;  // numbers of these names
  std::map<Key, int64_t> begun_;                       // when the last one that has begun was called
};

/// Decodes blocks of events, collectives, steps and stacks. One per thread. Rows without a time have the track
/// kNoTrack.
class RowDecoder {
 public:
  RowDecoder(const trace::Reader& reader, const trace::NameNumbers& names, const trace::Clocks& clocks);
  /// Without it rows that are still in flight have no time.
  void setInFlight(std::shared_ptr<const InFlight> in_flight) { in_flight_ = std::move(in_flight); }
  Status decode(const trace::Block& block, TrackNumbers& tracks, TimelineRows& rows);

 private:
  const trace::ClockTable& clockOf(uint32_t node);
  template <typename V>
  Status load(const trace::Block& block, int column, trace::ColumnData& data, V& values);

  const trace::NameNumbers& names_;
  const trace::Clocks& clocks_;
  trace::BlockDecoder decoder_;
  trace::ColumnData columns_[15];
  std::shared_ptr<const InFlight> in_flight_;  // shared by decoders
  std::unordered_map<uint32_t, const trace::ClockTable*> clock_of_;
};

}  // namespace tracesmith::server
