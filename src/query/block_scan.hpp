// The table function that reads SBT blocks in place: what every SQL table of a trace is a view of.
#pragma once

#include <duckdb.hpp>

#include "query/trace_set.hpp"

namespace tracesmith::query {

/// Registers the table function `sbt_scan(table)` and a view for each table of the schema. Throws what DuckDB throws.
void registerTables(duckdb::Connection& connection, std::shared_ptr<TraceSet> traces);

}  // namespace tracesmith::query
