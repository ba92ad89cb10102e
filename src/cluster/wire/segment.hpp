// A segment: a file of recorded blocks, the same bytes in an agent's spool and in the master's store.
//
//   <epoch>-<number>.sbt    epoch: one run of an agent; numbers count from 0
#pragma once

#include <cstdint>
#include <string>

namespace tracesmith::cluster {

/// Name of a segment's file.
std::string segmentFile(const std::string& epoch, uint32_t number);
/// The reverse; false for other files.
bool parseSegmentFile(const std::string& file, std::string& epoch, uint32_t& number);

/// What the blocks of a segment are, by their stream.
enum SegmentStream : uint32_t {
  kNodeStream = 0,     ///< what every session wants; where nobody wants a summary, all rows
  kSummaryStream = 1,  ///< for sessions that keep a summary. Its first block comes before all others
  kWholeStream = 2,    ///< for those that keep everything, in a segment with a summary
  kSegmentStreams
};

struct SegmentInfo {
  std::string node, epoch, path;
  uint32_t number = 0;
  uint64_t size = 0;                                  ///< whole blocks, and damage between them
  uint64_t intact = 0;                                ///< up to the first damage: an agent that has it sends it again
  uint64_t durable = 0;                               ///< of them, what survives a power cut and is acknowledged
  int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;  ///< times of its rows, raw clock of the node
  /// Of its first and last checkpoint, reference clock. A first one of 0: what it holds may be older than any.
  int64_t first_covered_ns = INT64_MAX, covered_ns = 0;
  uint64_t events = 0, rows = 0;  ///< of `events`; of all tables with times
  bool closed = false;
};

}  // namespace tracesmith::cluster
