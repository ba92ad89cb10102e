// The agent's spool: what it recorded and the master has not made durable yet, as SBT files on the node's disk.
//
//   spool/<epoch>-<segment>.sbt    epoch = one run of the agent, segments count from 0
//
// A segment is a whole trace by itself (its own strings, its own description of node and clock) and ends with a
// checkpoint at every moment somebody else may see. When it is closed, the last one is in it twice: each says how many
// rows are before it, and damage to one must not take that too. Its bytes go to the master as they are. A segment is
// removed when the master has all of it and a later one has a checkpoint. The file spool/removed has the last one that
// was removed: a master that does not know it was restored from an older state.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "cluster/wire/checkpoint.hpp"
#include "model/travel.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cluster {

/// One thread writes, another sends; both may call from their own.
class Spool {
 public:
  /// Makes what an earlier run left behind whole again.
  static Result<std::unique_ptr<Spool>> open(const std::string& folder);

  const std::string& epoch() const { return epoch_; }
  const std::string& folder() const { return folder_; }
  /// The last checkpoint of the run before; empty state if there was none.
  const Checkpoint& recovered() const { return recovered_; }

  // The writing side.
  Status beginSegment();
  trace::Writer& writer() { return *writer_; }
  bool writing() const { return writer_ != nullptr; }
  /// Writes a block of another writer, whose names are those of this stream.
  Status commit(std::string_view block, uint32_t stream);
  /// What was committed to the writer before is safe now.
  Status checkpoint(const Checkpoint& checkpoint);
  Status closeSegment();
  /// After a failed write: the segment ends with its last checkpoint.
  void abandonSegment();

  // The sending side.
  struct Piece {
    std::string epoch;
    uint32_t segment = 0;
    uint64_t offset = 0;
    std::string data;  ///< empty: asks how much of the segment the master has
  };
  /// The next whole blocks to send, up to about `most` bytes; false if there are none. Moves the place to send from.
  /// Damaged ones are replaced by a block that says so: see wire/damage.hpp.
  Result<bool> next(size_t most, Piece& piece);
  /// Waits until there may be something to send.
  void wait(int timeout_ms);
  void wake();
  /// The master has this much of a segment, safely. With `restart`: it has this much, safe or not, and wants what
  /// follows. That may be less than it has acknowledged, if it was restored from a backup.
  void acknowledge(const std::string& epoch, uint32_t segment, uint64_t size, bool restart);
  /// After a new connection: asks what the master has of each segment before it sends what follows.
  void rewind();
  /// The last segment that was removed, of this run or an earlier one; its epoch is empty if there was none.
  model::SpoolMark removed() const;

  /// While it is held nothing is removed, though a master has it.
  void hold(bool held);
  /// The files there are, oldest first, and how much of each is safe.
  std::vector<std::pair<std::string, uint64_t>> files() const;

  uint64_t unacknowledged() const;  ///< bytes
  uint64_t inFlight() const;        ///< bytes sent and not acknowledged

 private:
  struct Segment {
    std::string epoch;
    uint32_t number = 0;
    uint64_t size = 0;  // up to the last checkpoint, or all of it when closed
    uint64_t sent = 0, acknowledged = 0;
    bool closed = false;
    int64_t covered_ns = 0;            // of its last checkpoint
    bool asked = false, known = true;  // what the master has of it
  };
  Spool() = default;
  Status recover(const std::string& file, const std::string& epoch, uint32_t number);
  std::string path(const Segment& segment) const;
  void removeDone();

  std::string folder_, epoch_;
  Checkpoint recovered_;
  File file_;  // of the segment being written, and what is in it
  RowCounts rows_;
  Checkpoint last_;
  uint32_t stream_ = 0;  // of the block that is written
  std::unique_ptr<trace::Writer> writer_;
  uint32_t next_segment_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Segment> segments_;  // oldest first
  model::SpoolMark removed_;
  bool woken_ = false, held_ = false;
};

}  // namespace tracesmith::cluster
