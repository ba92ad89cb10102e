// A result as a stream of the Arrow C data interface: the consumer takes DuckDB's Arrow buffers as they are.
#pragma once

#include <duckdb.hpp>
#include <memory>

#include "query/engine.hpp"

namespace tracesmith::query {

/// `keep` is what the result needs; it lives as long as the stream.
void makeArrowStream(duckdb::unique_ptr<duckdb::QueryResult> result, std::shared_ptr<void> keep, ArrowArrayStream* out);

}  // namespace tracesmith::query
