#include "trace/sql_columns.hpp"

namespace tracesmith::trace {
namespace {

const char* sqlType(Kind kind) {
  switch (kind) {
    case Kind::Int32:
      return "INTEGER";
    case Kind::Real:
      return "DOUBLE";
    case Kind::Type:
      return "ENUM";
    case Kind::Str:
    case Kind::Text:
      return "VARCHAR";
    default:
      return "BIGINT";
  }
}

}  // namespace

std::vector<SqlColumn> sqlColumns(const TableInfo& table) {
  std::vector<SqlColumn> columns;
  for (const ColumnInfo& c : table.columns) {
    if (c.kind != Kind::Launch) {
      columns.push_back({c.name, sqlType(c.kind), c.doc});
      continue;
    }
    for (const LaunchField& f : launchFields()) columns.push_back({f.name, "INTEGER", f.doc});
  }
  return columns;
}

}  // namespace tracesmith::trace
