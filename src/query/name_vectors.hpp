// Names (and launch shapes) as DuckDB's dictionary vectors over the strings of a stream, without copying a string.
#pragma once

#include <duckdb.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "query/block_columns.hpp"
#include "query/scan_plan.hpp"

namespace tracesmith::query {

/// The dictionary of one Str column or one field of a Launch column, in one stream. One per thread: DuckDB notes hashes
/// in it.
struct NameVector {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t low = 0;         ///< id of position 0
  uint32_t size = 0;        ///< positions, that of NULL among them
  uint32_t null = kNone;    ///< position of NULL
  bool known_size = false;  ///< DuckDB may work on the dictionary instead of on the rows
  std::unique_ptr<duckdb::Vector> vector;
  std::vector<duckdb::validity_t> validity;
  std::string id;  ///< equal for equal dictionaries: DuckDB keeps results by it
};

/// True for columns that are read through a NameVector.
bool isNames(const SqlColumn& column);

/// One per thread of a scan.
class NameVectors {
 public:
  explicit NameVectors(const ScanPlan& plan) : plan_(plan), columns_(plan.traces->columns(*plan.table).size()) {}

  NameVector& get(const SqlColumn& column, const TraceSet::BlockRef& ref);
  /// Sets `positions` of a column that is not all NULL; all launch fields share them.
  static void setPositions(DecodedColumn& column, const NameVector& names, size_t rows);

 private:
  std::unique_ptr<NameVector> make(const SqlColumn& column, const TraceSet::BlockRef& ref) const;

  struct OfColumn {
    std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<NameVector>> streams;  // by source and stream
    std::pair<uint32_t, uint32_t> last_key;
    NameVector* last = nullptr;
  };
  const ScanPlan& plan_;
  std::vector<OfColumn> columns_;
};

}  // namespace tracesmith::query
