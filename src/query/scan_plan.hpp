// What a scan reads: made once when it starts, the same for all its threads.
#pragma once

#include <duckdb.hpp>
#include <duckdb/planner/table_filter.hpp>
#include <memory>
#include <vector>

#include "query/trace_set.hpp"

namespace tracesmith::query {

/// A filter DuckDB pushed into the scan.
struct ScanFilter {
  const SqlColumn* column;
  const duckdb::TableFilter* filter;
};

struct ScanPlan {
  std::shared_ptr<TraceSet> traces;  // shared with the engine: DuckDB may keep a plan longer
  const trace::TableInfo* table = nullptr;
  uint64_t id = 0;                       ///< of this scan in the process: names its dictionaries
  uint64_t rows = 0;                     ///< of the blocks it visits
  std::vector<const SqlColumn*> output;  ///< nullptr: a column nobody looks at
  std::vector<ScanFilter> filters;
};

}  // namespace tracesmith::query
