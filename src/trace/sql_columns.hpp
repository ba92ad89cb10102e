// The columns of a table as queries and exports show them: a launch shape is nine columns.
#pragma once

#include <vector>

#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

struct SqlColumn {
  const char* name;
  const char* type;  ///< BIGINT, INTEGER, DOUBLE, ENUM, VARCHAR
  const char* doc;
};
std::vector<SqlColumn> sqlColumns(const TableInfo& table);

}  // namespace tracesmith::trace
