// The columns of one block, decoded when first asked for.
#pragma once

#include <memory>
#include <vector>

#include "query/scan_plan.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::query {

/// One column of the block.
struct DecodedColumn {
  bool loaded = false;
  bool all_null = false;
  bool constant = false;  ///< one value for all rows, none of them NULL; only that one is in `data`
  std::unique_ptr<trace::ColumnData> data;
  std::vector<uint64_t> bits;  ///< a bit per row that is not NULL; empty: no row is NULL
  std::vector<uint8_t> types;  ///< of a Type column that has types of a newer version: the repaired ones, else empty

  const uint8_t* typeData() const { return types.empty() ? data->data<uint8_t>() : types.data(); }
  bool valid(size_t row) const { return bits.empty() || (bits[row / 64] >> (row % 64) & 1); }

  // Str and Launch columns, filled by NameVectors.
  const uint32_t* positions = nullptr;  ///< places in the dictionary; nullptr: not yet known
  std::vector<uint32_t> own_positions;  ///< where the positions are not the ids themselves
};

/// One per thread of a scan. Memory is borrowed from the trace set, so that small queries do not pay for fresh pages.
class BlockColumns {
 public:
  explicit BlockColumns(const ScanPlan& plan);
  ~BlockColumns();

  /// Goes to another block.
  void start(const TraceSet::BlockRef& ref);
  const TraceSet::BlockRef& ref() const { return ref_; }
  const trace::Block& block() const { return *ref_.block; }
  /// A column by its index in the table; nullptr if it is damaged (the reader knows).
  /// Of a Sum column only `bits` and `all_null` are set: its values are those of the two columns before it.
  DecodedColumn* get(int column);
  /// True if anything of the block was decoded.
  bool decoded() const { return decoded_; }

 private:
  bool decode(int column, DecodedColumn& out);

  const ScanPlan& plan_;
  TraceSet::BlockRef ref_{};
  std::unique_ptr<trace::BlockDecoder> decoder_;
  uint32_t decoder_source_ = UINT32_MAX;
  std::vector<std::unique_ptr<DecodedColumn>> columns_;
  bool decoded_ = false;
};

}  // namespace tracesmith::query
