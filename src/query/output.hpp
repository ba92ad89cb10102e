// Results as text: a table for people, CSV and JSON for programs. Rows are written as they come.
#pragma once

#include <duckdb.hpp>
#include <memory>

#include "query/engine.hpp"

namespace tracesmith::query {

/// Takes the chunks of one result.
class ResultWriter {
 public:
  virtual ~ResultWriter() = default;
  virtual Status chunk(duckdb::DataChunk& chunk) = 0;
  virtual Status end() = 0;
};

/// For all but kParquet.
std::unique_ptr<ResultWriter> makeWriter(const RunOptions& options, const duckdb::vector<duckdb::string>& names,
                                         const duckdb::vector<duckdb::LogicalType>& types);

}  // namespace tracesmith::query
