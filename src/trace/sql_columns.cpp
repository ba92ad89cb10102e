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
  static constexpr const char* kLaunchDocs[kLaunchFields] = {
      "blocks of a kernel's grid in x", "blocks in y",         "blocks in z",
      "threads of a block in x",        "threads in y",        "threads in z",
      "registers of a thread",          "static shared bytes", "dynamic shared bytes"};
  std::vector<SqlColumn> columns;
  for (const ColumnInfo& c : table.columns) {
    if (c.kind != Kind::Launch) {
      columns.push_back({c.name, sqlType(c.kind), c.doc});
      continue;
    }
    for (int i = 0; i < kLaunchFields; ++i) columns.push_back({kLaunchFieldNames[i], "INTEGER", kLaunchDocs[i]});
  }
  return columns;
}

}  // namespace tracesmith::trace
