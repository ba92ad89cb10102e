// Which blocks a WHERE can match, from their zones alone.
#pragma once

#include <duckdb.hpp>
#include <span>

#include "query/trace_set.hpp"

namespace tracesmith::query {

/// False if the condition is not true for any row of the block. Knows =, <>, <, <=, >, >=, BETWEEN, IN, IS [NOT] NULL,
/// AND and OR over columns and constants; whatever else may be true.
/// `columns[i]` is the SQL column that binding i of the condition stands for, nullptr for others.
bool mayMatch(const duckdb::Expression& condition, const std::vector<const SqlColumn*>& columns, TraceSet& traces,
              const TraceSet::BlockRef& ref);

/// What the zones of blocks say about a column, in DuckDB's terms; for integers, reals and types.
duckdb::BaseStatistics zoneStatistics(const SqlColumn& column, std::span<const TraceSet::BlockRef> blocks);

}  // namespace tracesmith::query
