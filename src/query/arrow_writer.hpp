// Results as an Arrow IPC stream.
#pragma once

#include "query/output.hpp"

namespace tracesmith::query {

std::unique_ptr<ResultWriter> makeArrowWriter(const RunOptions& options, const duckdb::vector<duckdb::string>& names,
                                              const duckdb::vector<duckdb::LogicalType>& types);

}  // namespace tracesmith::query
