// The master's store: the segments of all agents, byte for byte as they were spooled.
//
//   nodes/<node>/<epoch>-<segment>.sbt
//   nodes/<node>/removed                  what retention removed and the agent may still have
//   nodes/<node>/losses                   what was here before a backup was restored
//
// A piece is taken only where the file ends, so nothing is stored twice; it is acknowledged only after sync(). Damage
// in a file cuts nothing off. If the agent still has the bytes it sends them again, and the damaged file stays beside
// the new one as <file>.damaged.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "cluster/wire/segment.hpp"
#include "model/travel.hpp"
#include "trace/block_bytes.hpp"

namespace tracesmith::cluster {

/// Thread safe; pieces of one node come from one thread at a time.
class Store {
 public:
  /// Finds what is there. A torn end is not part of a segment; what the agent sends next replaces it.
  /// `sync_file` makes the bytes of a file survive a power cut; a test has one that fails.
  using SyncFile = std::function<int(int fd)>;
  static Result<std::unique_ptr<Store>> open(const std::string& folder, SyncFile sync_file = ::fdatasync);
  ~Store();

  struct Taken {
    uint64_t size = 0;      ///< of the segment now
    uint64_t durable = 0;   ///< of it, what survives a power cut
    bool expected = false;  ///< nothing was taken: the piece asks, or does not begin where the segment ends
    uint64_t events = 0;    ///< rows of `events` in what was taken
    std::string path;       ///< of the segment
  };
  /// Checks and appends whole blocks. kInvalid: the bytes are not blocks. kIo: the disk. Without data: what is there.
  /// Of a segment that retention removed everything was there. A checkpoint that says it covers what is later than
  /// `now_ns`, reference clock, was made by a clock that is wrong: it does not make the node's data complete.
  Result<Taken> append(const std::string& node, const std::string& epoch, uint32_t number, uint64_t offset,
                       std::string_view data, int64_t now_ns = INT64_MAX);

  struct Durable {
    std::string node, epoch;
    uint32_t number = 0;
    uint64_t size = 0;
  };
  /// Makes everything appended so far survive a power cut, and appends what that is. After an error the bytes that
  /// may be lost are written again by the next call.
  Status sync(std::vector<Durable>& durable);

  std::vector<SegmentInfo> segments(const std::string& node) const;
  std::vector<std::string> nodes() const;
  /// Until when the data of a node is complete, reference clock; 0: nothing is known.
  int64_t coveredUntil(const std::string& node) const;
  uint64_t bytes(const std::string& node) const;
  uint64_t bytes() const;
  uint64_t events(const std::string& node) const;
  /// Remembers it until the agent has let go of it too.
  Status remove(const SegmentInfo& segment);
  /// An agent has removed what it had up to here. If that is not all here, this store is older than what it has
  /// acknowledged: what is missing, once.
  std::optional<model::NodeLoss> agentRemoved(const std::string& node, const model::SpoolMark& mark);
  /// All that were found so.
  std::vector<model::NodeLoss> losses(const std::string& node) const;

 private:
  struct Segment;
  struct Node;
  Store() = default;
  Node* find(const std::string& node) const;
  Result<Node*> findOrMake(const std::string& node);
  static Status scan(Segment& segment);
  static Status rescan(Segment& segment);
  static Status setAside(Segment& segment);
  Status writeAgain(Segment& segment);
  static void readLists(Node& node);
  static Status writeRemoved(const Node& node);
  static Status writeList(const std::string& path, const std::string& text);
  static void absorb(SegmentInfo& info, const trace::BlockBytes& block);

  std::string folder_;
  SyncFile sync_file_;
  mutable std::mutex mutex_;  // guards the map, not the nodes in it
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

/// A sentence about it.
std::string text(const std::string& node, const model::NodeLoss& loss);

}  // namespace tracesmith::cluster
