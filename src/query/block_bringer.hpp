// Brings the columns that a scan needs of a trace that is elsewhere into its file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "query/block_cursor.hpp"

namespace tracesmith::query {

/// Of one scan, for all its threads. `plan` and `blocks` must outlive it.
class BlockBringer {
 public:
  BlockBringer(const ScanPlan& plan, const std::vector<TraceSet::BlockRef>& blocks);
  /// Brings what is read of a block, and of some that come after it. False: none of its rows is wanted. Throws a DuckDB
  /// exception if the bytes cannot be had.
  bool bring(size_t block, duckdb::ClientContext& context);

 private:
  enum class State : uint8_t { kUnknown, kHere, kUnwanted };
  bool excluded(const TraceSet::BlockRef& ref) const;

  const ScanPlan& plan_;
  const std::vector<TraceSet::BlockRef>& blocks_;
  std::vector<int> filtered_, others_;  // columns that filters look at for each row; those that only the result has
  std::mutex mutex_;                    // guards what follows
  std::vector<State> states_;           // by block
  size_t ahead_ = 0;                    // blocks before this one were looked at
  uint64_t next_bytes_;
  std::unique_ptr<BlockCursor> filter_;  // made when it is needed
};

}  // namespace tracesmith::query
