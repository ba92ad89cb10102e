// What a user may ask: statements that only read.
#pragma once

#include <duckdb.hpp>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::query {

/// Parses `sql` and refuses every statement that is not SELECT, WITH, VALUES, FROM, SHOW, DESCRIBE, SUMMARIZE or
/// EXPLAIN of one of them. Throws what DuckDB's parser throws.
Status parseReadOnly(duckdb::Connection& connection, const std::string& sql,
                     duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>>& statements);

}  // namespace tracesmith::query
