// How deep rows of a track are nested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracesmith::server {

/// The level of rows that are asked for by start, the longer first where several start together: the lowest one that is
/// free. Of rows that nest it is the number of rows around it; rows that only overlap do not cover each other.
class Levels {
 public:
  size_t of(int64_t ts, int64_t dur);

 private:
  std::vector<int64_t> ends_;  // by level
};

/// How many levels a track needs, of rows in any order. Keeps some thousand rows. Of longer tracks the longest rows
/// stay, which are those around the others.
class DepthCounter {
 public:
  void add(int64_t ts, int64_t dur);
  /// Rows that another has of the same track.
  void take(const DepthCounter& other);
  uint32_t depth();

 private:
  struct Span {
    int64_t ts, dur;
  };
  void measure();
  void shrink();

  uint32_t depth_ = 1;
  std::vector<Span> spans_;
};

}  // namespace tracesmith::server
