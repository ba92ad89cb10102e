// A filter that DuckDB pushed into the scan, held against one block after another: by its zone, by its names, row by
// row.
#pragma once

#include <duckdb.hpp>
#include <duckdb/planner/table_filter.hpp>
#include <duckdb/planner/table_filter_state.hpp>
#include <memory>
#include <vector>

#include "query/vector_filler.hpp"

namespace tracesmith::query {

/// One per thread and filter.
class BlockFilter {
 public:
  BlockFilter(const ScanPlan& plan, const ScanFilter& filter, duckdb::ClientContext& context);

  /// Keeps the rows that pass; no row is left if the zone says so. False if the block is damaged.
  bool apply(BlockColumns& columns, NameVectors& names, VectorFiller& filler, RowSet& rows);

 private:
  bool applyToTrace(const TraceSet::BlockRef& ref, RowSet& rows);
  bool applyToNames(BlockColumns& columns, NameVectors& names, RowSet& rows);
  bool applyToTypes(BlockColumns& columns, RowSet& rows);
  bool applyToValues(BlockColumns& columns, VectorFiller& filler, RowSet& rows);
  void ask(duckdb::Vector& values, size_t n, uint8_t* passes);

  const ScanPlan& plan_;
  const SqlColumn& column_;
  const duckdb::TableFilter& filter_;
  std::unique_ptr<duckdb::TableFilterState> state_;
  std::vector<uint8_t> passes_;                                               // by type, or by row
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint8_t>> names_pass_;  // by source and stream, then by position
};

}  // namespace tracesmith::query
