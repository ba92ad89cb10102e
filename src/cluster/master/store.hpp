// The master's store: the segments of all agents, byte for byte as they were spooled.
//
//   nodes/<node>/<epoch>-<segment>.sbt
//
// A piece is taken only where the file ends, so nothing is stored twice; it is acknowledged only after sync().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "cluster/wire/segment.hpp"
#include "trace/block_bytes.hpp"

namespace tracesmith::cluster {

/// Thread safe; pieces of one node come from one thread at a time.
class Store {
 public:
  /// Finds what is there and cuts torn ends.
  static Result<std::unique_ptr<Store>> open(const std::string& folder);
  ~Store();

  struct Taken {
    uint64_t size = 0;      ///< of the segment now
    uint64_t durable = 0;   ///< of it, what survives a power cut
    bool expected = false;  ///< nothing was taken: the piece does not begin where the segment ends
    uint64_t events = 0;    ///< rows of `events` in what was taken
    std::string path;       ///< of the segment
  };
  /// Checks and appends whole blocks. kInvalid: the bytes are not blocks. kIo: the disk.
  Result<Taken> append(const std::string& node, const std::string& epoch, uint32_t number, uint64_t offset,
                       std::string_view data);

  struct Durable {
    std::string node, epoch;
    uint32_t number = 0;
    uint64_t size = 0;
  };
  /// Makes everything appended so far survive a power cut; what that is.
  Result<std::vector<Durable>> sync();

  std::vector<SegmentInfo> segments(const std::string& node) const;
  std::vector<std::string> nodes() const;
  /// Until when the data of a node is complete, reference clock; 0: nothing is known.
  int64_t coveredUntil(const std::string& node) const;
  uint64_t bytes(const std::string& node) const;
  uint64_t bytes() const;
  uint64_t events(const std::string& node) const;
  Status remove(const SegmentInfo& segment);

 private:
  struct Segment;
  struct Node;
  Store() = default;
  Node* find(const std::string& node) const;
  Result<Node*> findOrMake(const std::string& node);
  Status scan(Segment& segment);
  static void absorb(SegmentInfo& info, const trace::BlockBytes& block);

  std::string folder_;
  mutable std::mutex mutex_;  // guards the map, not the nodes in it
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

}  // namespace tracesmith::cluster
