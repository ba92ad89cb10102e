// Which of DuckDB's functions a statement may call.
#pragma once

#include <duckdb.hpp>
#include <string>

namespace tracesmith::query {

/// Takes every other function out of the database. Table functions stay if they are on a list: the rest reads files,
/// changes the engine or takes addresses of memory. However a statement hides the name of such a function, DuckDB does
/// not find it.
void removeFunctions(duckdb::Connection& connection);

/// "The function read_csv is not available: …" where `error` of DuckDB says that it did not find one of those;
/// otherwise empty.
std::string missingFunction(const duckdb::ErrorData& error);

}  // namespace tracesmith::query
