// Rows of a decoded block as DuckDB's vectors: in place where that is possible, gathered where a filter chose among
// them.
#pragma once

#include <duckdb.hpp>
#include <vector>

#include "query/block_columns.hpp"
#include "query/name_vectors.hpp"

namespace tracesmith::query {

/// Rows of a block that are still wanted: all of them, or those listed.
struct RowSet {
  size_t count = 0;
  bool all = true;
  std::vector<uint32_t> rows;  ///< ascending; unless `all`

  void reset(size_t n) {
    count = n;
    all = true;
  }
  void clear() { count = 0; }
  size_t at(size_t i) const { return all ? i : rows[i]; }
  /// Keeps the rows for which keep(row) is 1 (and not 0).
  template <typename Keep>
  void filter(Keep keep) {
    size_t kept = 0;
    if (all) rows.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t row = all ? static_cast<uint32_t>(i) : rows[i];
      rows[kept] = row;
      kept += keep(row);
    }
    all = all && kept == count;
    count = kept;
  }
};

/// One per thread of a scan.
class VectorFiller {
 public:
  VectorFiller(const ScanPlan& plan, BlockColumns& columns, NameVectors& names)
      : plan_(plan), columns_(columns), names_(names) {}

  /// Fills `out` with rows first … first + count − 1 of the set; `first` is a multiple of the vector size. The column
  /// was decoded. The vector may point into the block's memory: DuckDB is done with it before it asks for more.
  void fill(const SqlColumn& column, const RowSet& rows, size_t first, size_t count, duckdb::Vector& out);

 private:
  struct Piece {
    const RowSet& rows;
    size_t first, count;
  };
  template <typename T>
  void flat(const T* values, const DecodedColumn& column, const Piece& piece, duckdb::Vector& out);
  void sum(int column, const Piece& piece, duckdb::Vector& out);
  void names(const SqlColumn& column, DecodedColumn& data, const Piece& piece, duckdb::Vector& out);
  void text(const DecodedColumn& column, const Piece& piece, duckdb::Vector& out);
  void validity(const DecodedColumn& column, const Piece& piece, duckdb::Vector& out);

  const ScanPlan& plan_;
  BlockColumns& columns_;
  NameVectors& names_;
};

}  // namespace tracesmith::query
