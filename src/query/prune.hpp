// Which blocks a WHERE can match, from their zones alone.
#pragma once

#include <duckdb.hpp>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "query/trace_set.hpp"

namespace tracesmith::query {

/// A condition of a WHERE, made ready to be held against many blocks. Knows =, <>, <, <=, >, >=, BETWEEN, IN, IS [NOT]
/// NULL, AND and OR over columns and constants, and anything that depends on the type of an event alone; whatever else
/// may be true.
class ZoneCondition {
 public:
  /// `columns[i]` is the SQL column that binding i of the condition stands for, nullptr for others.
  ZoneCondition(duckdb::ClientContext& context, const duckdb::Expression& condition,
                const std::vector<const SqlColumn*>& columns, TraceSet& traces);
  ~ZoneCondition();

  /// False if the condition is not true for any row of the block.
  bool mayMatch(const TraceSet::BlockRef& ref) const;

  struct Node;  // public for the code that builds it

 private:
  std::unique_ptr<Node> root_;
};

/// The column a condition depends on, if it is one only.
const SqlColumn* onlyColumn(const duckdb::Expression& condition, const std::vector<const SqlColumn*>& columns);

/// What the zones of blocks say about a column, in DuckDB's terms; for integers, reals and types.
duckdb::BaseStatistics zoneStatistics(const SqlColumn& column, std::span<const TraceSet::BlockRef> blocks);

/// Whether no row of a block can pass a filter that DuckDB pushed into the scan, by the zone of a number.
bool zoneExcludes(const SqlColumn& column, const duckdb::TableFilter& filter, const TraceSet::BlockRef& ref);

}  // namespace tracesmith::query
