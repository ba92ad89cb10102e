// What a master has stored, as a trace here: all of it, or an outline whose columns come when a query needs them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "cluster/api.hpp"
#include "query/engine.hpp"

namespace tracesmith::cli {

/// A session by name or id; empty: all that is stored.
Status fetchSession(cluster::Client& client, const std::string& session, const std::string& path);

/// A trace in a sparse file. What the master left out is read from it once, when need() asks for it. Of one thread at a
/// time.
class StoredSession final : private cluster::OutlineSink {
 public:
  /// `client` and the file at `path` must outlive it.
  explicit StoredSession(cluster::Client& client) : client_(client) {}
  /// `tables`: as Client::outline() takes them.
  Status open(const std::string& session, const std::vector<std::string>& tables, const std::string& path);
  Status need(const std::vector<query::ByteRange>& ranges);

  uint64_t size() const { return size_; }             ///< of the trace
  uint64_t fetchedBytes() const { return fetched_; }  ///< of it, so far

 private:
  struct Gap {
    uint64_t end = 0;                          // in the trace
    size_t segment = 0;                        // of segments_
    uint64_t offset = 0;                       // in that
    std::map<uint64_t, uint64_t> filled = {};  // from, to, in the trace: what is here by now
  };
  struct Piece {
    uint64_t at, size;  // in the trace
  };
  Status bytes(std::string_view bytes) override;
  Status leftOut(const cluster::SegmentName& segment, uint64_t offset, uint64_t size) override;
  void addMissing(uint64_t from, uint64_t to, std::vector<Piece>& missing);
  Status writeAt(uint64_t at, std::string_view bytes);

  cluster::Client& client_;
  File file_;
  std::vector<cluster::SegmentName> segments_;
  std::map<uint64_t, Gap> gaps_;  // by their place in the trace
  uint64_t size_ = 0, fetched_ = 0;
  Progress* progress_ = nullptr;  // while the outline comes
};

}  // namespace tracesmith::cli
