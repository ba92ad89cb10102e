// A result as a box drawn with lines, for people.
#pragma once

#include "query/output.hpp"

namespace tracesmith::query {

std::unique_ptr<ResultWriter> makeTableWriter(const RunOptions& options, const duckdb::vector<duckdb::string>& names,
                                              const duckdb::vector<duckdb::LogicalType>& types);

}  // namespace tracesmith::query
