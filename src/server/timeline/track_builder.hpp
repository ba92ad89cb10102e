// Buckets of one track while they are made: as fine as the number of its events allows.
#pragma once

#include <cstdint>
#include <vector>

#include "server/timeline/index.hpp"
#include "server/timeline/levels.hpp"

namespace tracesmith::server {

class TrackBuilder {
 public:
  /// `shift`: the finest there is. `long_ns`: from here on an event is long.
  TrackBuilder(uint32_t shift, int64_t long_ns) : shift_(shift), long_ns_(long_ns) {}

  /// `ts` after the origin, not negative.
  void add(int64_t ts, int64_t dur, uint32_t name, uint8_t type);
  /// Takes what another has of the same track.
  void take(TrackBuilder&& other);
  /// The trace has become longer: no finer than this any more, and what is long is longer.
  void grow(uint32_t shift, int64_t long_ns);
  /// What there is so far.
  void write(TrackIndex& out);

 private:
  struct Building {
    uint32_t index, count, name;
    uint8_t type;
    float busy, vote;
  };
  void place(int64_t ts, int64_t dur, uint32_t name, uint8_t type);
  Building& at(uint32_t index);
  static void merge(Building& into, const Building& from);
  void tidy();
  void coarsen();
  size_t limit() const;

  uint32_t shift_;
  int64_t long_ns_;
  uint64_t events_ = 0;
  bool sorted_ = true;
  size_t tidy_at_ = 0;
  std::vector<Building> buckets_;
  std::vector<LongEvent> longs_;
  DepthCounter depth_;
};

}  // namespace tracesmith::server
