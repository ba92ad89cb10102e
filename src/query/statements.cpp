#include "query/statements.hpp"

#include <duckdb/parser/statement/create_statement.hpp>
#include <duckdb/parser/statement/explain_statement.hpp>

namespace tracesmith::query {
namespace {

using duckdb::StatementType;

Status checkReadOnly(const duckdb::SQLStatement& statement, const std::string& sql) {
  if (statement.type == StatementType::SELECT_STATEMENT) return {};
  if (statement.type == StatementType::EXPLAIN_STATEMENT)
    return checkReadOnly(*statement.Cast<duckdb::ExplainStatement>().stmt, sql);
  // A PIVOT that finds its values itself is a CREATE TYPE and more; the parser has taken it apart.
  if (statement.type == StatementType::CREATE_STATEMENT &&
      duckdb::StringUtil::Contains(duckdb::StringUtil::Lower(sql), "pivot") &&
      statement.Cast<duckdb::CreateStatement>().info->type == duckdb::CatalogType::TYPE_ENTRY)
    return Status::invalid("PIVOT must name its values: PIVOT … ON column IN (value, …)");
  std::string kind = duckdb::StatementTypeToString(statement.type);
  return Status::invalid("a trace can only be read: " + kind +
                         " is not allowed (use SELECT, WITH, SHOW, DESCRIBE, SUMMARIZE or EXPLAIN)");
}

}  // namespace

Status parseReadOnly(duckdb::Connection& connection, const std::string& sql,
                     duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>>& statements) {
  statements = connection.ExtractStatements(sql);
  if (statements.empty()) return Status::invalid("no SQL statement given");
  for (auto& statement : statements) TS_TRY(checkReadOnly(*statement, sql));
  return {};
}

}  // namespace tracesmith::query
