// Goes through one block for a scan: applies the filters, decodes what is needed, fills DuckDB's vectors.
#pragma once

#include <duckdb.hpp>
#include <vector>

#include "query/block_columns.hpp"
#include "query/block_filter.hpp"
#include "query/name_vectors.hpp"
#include "query/vector_filler.hpp"

namespace tracesmith::query {

/// One per thread of a scan.
class BlockCursor {
 public:
  BlockCursor(const ScanPlan& plan, duckdb::ClientContext& context);

  /// Goes to a block. False: nothing of it is wanted, or it is damaged (the reader knows).
  bool load(const TraceSet::BlockRef& ref);
  /// Whether filters let a row of a block pass, as far as they can be asked. Then load() it.
  bool matches(const TraceSet::BlockRef& ref);
  /// True if load() decoded anything.
  bool decoded() const { return columns_.decoded(); }
  /// Fills `chunk` with the next rows; no rows at the end of the block.
  void next(duckdb::DataChunk& chunk);

 private:
  const ScanPlan& plan_;
  BlockColumns columns_;
  NameVectors names_;
  VectorFiller filler_;
  std::vector<BlockFilter> filters_;
  RowSet rows_;
  size_t position_ = 0;
};

}  // namespace tracesmith::query
