// The index of a trace for its timeline: for each track how busy it was, bucket by bucket, and for each block which
// tracks and names are in it. Made in one pass over the blocks (index_builder.hpp); its size follows the number of
// tracks and blocks, and a sixteenth of the events at most.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/timeline/rows.hpp"

namespace tracesmith::server {

/// A stretch of 2^shift ns of one track. Exact but for the name: the one that a vote weighted by time leaves over,
/// which is the one with most time wherever one has more than half of it.
struct Bucket {
  uint32_t index;  ///< (time − origin) >> shift
  uint32_t count;  ///< events that start in it
  uint32_t name;
  uint32_t type : 8;
  uint32_t unused : 24;
  float busy_ns;
};

/// An event too long for buckets.
struct LongEvent {
  int64_t ts, dur;  ///< ts after the origin
  uint32_t name;
  uint32_t type;
};

struct TrackIndex {
  TrackKey key;
  uint64_t events = 0;
  uint32_t shift = 0;
  uint32_t depth = 1;            ///< levels of nesting
  std::vector<Bucket> buckets;   ///< by index
  std::vector<LongEvent> longs;  ///< by ts
  std::vector<uint32_t> blocks;  ///< numbers of the blocks it is in
};

/// Events of one name, of one track, in one block.
struct NameStats {
  uint32_t track, name;
  uint32_t type, count;
  int64_t total, min, max;
};

struct BlockSummary {
  uint32_t block = 0;          ///< number in reader.blocks()
  uint32_t whole = 1;          ///< 0: too many names; `names` has a row per track only
  int64_t start = 0, end = 0;  ///< after the origin
  std::vector<NameStats> names;
};

class TimelineIndex {
 public:
  /// From a file written for this very trace; kNotFound if it was not.
  static Result<std::unique_ptr<TimelineIndex>> load(const std::string& path, const trace::Reader& reader);
  /// Whole or absent.
  Status save(const std::string& path, const trace::Reader& reader) const;

  int64_t origin = 0, duration = 0;
  std::vector<TrackIndex> tracks;                                  ///< in the order they are shown
  std::vector<BlockSummary> blocks;                                ///< of drawn tables, in file order
  std::unordered_map<TrackKey, uint32_t, TrackKeyHash> number_of;  ///< of a track
  std::unordered_map<uint32_t, uint32_t> summary_of;               ///< of a block number

  /// Fills the last two.
  void connect();
};

}  // namespace tracesmith::server
