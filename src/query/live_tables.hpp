// Tables of what runs now (model/live.def) as SQL sees them: schema `live`.
#pragma once

#include <duckdb.hpp>

#include "query/engine.hpp"

namespace tracesmith::query {

/// Throws what DuckDB throws.
void registerLiveTables(duckdb::Connection& connection, LiveRows rows);

}  // namespace tracesmith::query
