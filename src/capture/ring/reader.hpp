// Follows a ring from another process, alive or dead. One reader at a time consumes; snapshots disturb nobody.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/ring/mapping_guard.hpp"
#include "model/ring/nccl_records.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::ring {

/// How far somebody who only looks has read.
struct Cursors {
  std::vector<uint64_t> next;  // record, by lane
  uint64_t missed = 0;         // overwritten before they were read
};

class RingReader {
 public:
  static Result<std::unique_ptr<RingReader>> open(const std::string& path);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  const std::string& path() const { return path_; }
  uint32_t owner() const { return owner_; }  ///< user id
  RingHeader& header() { return *header_; }
  const RingHeader& header() const { return *header_; }

  /// From now on full lanes drop and count instead of overwriting what was not read. Undone by detach() or the
  /// destructor.
  void attach();
  void detach();
  /// The destructor leaves the ring attached: another reader of this process goes on.
  void leaveAttached() { attached_ = false; }
  /// Process id of a reader that is attached and alive, this one included; 0 if there is none.
  int64_t attachedReader() const;

  /// Hands every record written since the last call to visit(lane, record) and frees its room. Returns how many.
  size_t drain(const std::function<void(uint32_t lane, const Record&)>& visit);
  /// As drain, but from `cursors` (records read so far, one a lane) on, which it moves; the room is freed by release().
  /// Records overwritten before they were read are skipped and counted in `skipped`.
  size_t read(std::vector<uint64_t>& cursors, uint64_t& skipped,
              const std::function<void(uint32_t lane, const Record&)>& visit) const;
  /// Frees the room of what was read.
  void release(const std::vector<uint64_t>& cursors);
  /// Where a reader that attached starts.
  std::vector<uint64_t> tails() const;
  /// Largest share of a lane that is read but not released, 0…1.
  double held(const std::vector<uint64_t>& cursors) const;
  /// Hands over what came since the last call with these cursors, without freeing it: any number may follow.
  size_t follow(Cursors& cursors, const std::function<void(uint32_t lane, const Record&)>& visit) const;
  /// As follow, but only those that are wanted; the others are not copied. `want` is asked about every record, also
  /// about one that is being overwritten.
  size_t follow(Cursors& cursors, const std::function<bool(const Record&)>& want,
                const std::function<void(uint32_t lane, const Record&)>& visit) const;
  /// Hands over what the ring holds, oldest first in each lane, without freeing it; records overwritten meanwhile are
  /// left out.
  size_t snapshot(const std::function<void(uint32_t lane, const Record&)>& visit) const;

  /// Whether records of a lane were overwritten.
  bool wrapped(uint32_t lane) const { return lanes_[lane].head.load() > shapes_[lane].records; }

  /// Empty for an id that is no string.
  std::string_view string(uint32_t id) const;
  /// The text of a name, with its numbers.
  std::string text(const Name& name) const;

  /// Whether the process that wrote it still runs, also if it has a PID namespace of its own (a container).
  bool alive() const;
  /// Its id in this PID namespace, which is not the one in the header if it has another; nothing if it has ended or
  /// cannot be known.
  std::optional<int64_t> process() const;
  /// The id that people outside know it by: process(), or the header's.
  int64_t shownPid() const;
  bool inOtherNamespace() const;
  /// Somebody cut the file short: what it held is gone, and it holds nothing more. See surviveCutRings().
  bool cut() const { return guard_ && guard_->cut(); }

 private:
  RingReader() = default;
  bool lockedByWriter() const;

  std::string path_;
  int fd_ = -1;         // for locks
  uint32_t owner_ = 0;  // user
  mutable int64_t process_ = 0;
  char* base_ = nullptr;
  size_t bytes_ = 0;
  std::unique_ptr<GuardedMapping> guard_;
  RingHeader* header_ = nullptr;
  LaneHeader* lanes_ = nullptr;
  uint32_t lane_count_ = 0;
  uint64_t strings_offset_ = 0, strings_bytes_ = 0;
  bool attached_ = false;
  struct LaneShape {  // checked once: the file may lie later
    uint64_t offset;
    uint32_t records;
  };
  std::vector<LaneShape> shapes_;
};

/// Folder for the rings of one user: $TRACESMITH_DIR, else /dev/shm/tracesmith-<uid>, else /tmp/tracesmith-<uid>.
/// Created 0700.
Result<std::string> ringFolder();
/// Folder of the rings that had no room in this one; empty if there is none.
std::string spareOf(const std::string& folder);
/// Rings in a folder and in its spare.
std::vector<std::string> findRings(const std::string& folder);

}  // namespace tracesmith::ring
