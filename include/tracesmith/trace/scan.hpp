// Rows of one table that match a selection, block by block: zones prune blocks, only asked-for columns are decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::trace {

/// One clock for the rows of all nodes of a trace, whose own clocks have nothing to do with each other.
class TRACESMITH_API CommonClock {
 public:
  virtual ~CommonClock() = default;
  /// A time of a row of this block; `node` is the slot of its node. Rows without a node stay as they are.
  virtual int64_t toReference(const Block& block, int64_t node, int64_t raw) const = 0;
  /// The same for times that rows of any node in the block may have.
  virtual void widen(const Block& block, int64_t& low, int64_t& high) const = 0;
};

/// From the first start to the last end of a block's rows, on the clock if there is one; false: no row has a time.
TRACESMITH_API bool blockTimes(const Block& block, const CommonClock* clock, int64_t& low, int64_t& high);
/// Start of the first row of the table and end of the last; 0 and 0 if none has a time.
TRACESMITH_API void tableTimes(const Reader& reader, const TableInfo& table, const CommonClock* clock, int64_t& low,
                               int64_t& high);

/// What a user selects with --from, --to, --rank, --device, --type. Conditions on columns a table lacks do not apply to
/// it.
struct TRACESMITH_API Selection {
  int64_t from = INT64_MIN, to = INT64_MAX;  ///< rows that overlap [from, to): ts < to and ts + dur ≥ from
  std::vector<int64_t> ranks, devices;       ///< empty: all
  uint64_t types = ~0ull;                    ///< bit set of EventType
  const CommonClock* clock = nullptr;        ///< `from` and `to` are on it, and so will be ts and ts_end of the rows

  bool all() const {
    return from == INT64_MIN && to == INT64_MAX && ranks.empty() && devices.empty() && types == ~0ull;
  }
  /// False if no row of the block can match.
  bool mayMatch(const Block& block) const;
};

/// Goes through the matching rows of one table.
class TRACESMITH_API Scan {
 public:
  /// `columns`: indexes of the columns wanted.
  Scan(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns);
  ~Scan();

  /// Moves to the next block with a matching row; false at the end. Damaged blocks are skipped (and in
  /// reader.damage()).
  bool next();
  const Block& block() const;
  /// Numbers of the matching rows in the block, ascending.
  std::span<const uint32_t> rows() const;
  /// A wanted column of the block, by its index in the table.
  const ColumnData& column(int index) const;

  /// The blocks that will be visited, in order; may be changed before the first next(), and added to at any time.
  std::vector<const Block*>& blocks();

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether the trace says that a node or GPU of it was simulated: nobody may take it for a measurement.
TRACESMITH_API bool isSimulated(const Reader& reader);

}  // namespace tracesmith::trace
