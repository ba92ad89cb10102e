#include "query/statements.hpp"

#include <duckdb/parser/statement/explain_statement.hpp>

namespace tracesmith::query {
namespace {

using duckdb::StatementType;

Status checkReadOnly(const duckdb::SQLStatement& statement) {
  switch (statement.type) {
    case StatementType::SELECT_STATEMENT: return {};
    case StatementType::EXPLAIN_STATEMENT: return checkReadOnly(*statement.Cast<duckdb::ExplainStatement>().stmt);
    case StatementType::MULTI_STATEMENT:
      return Status::invalid("PIVOT has to name its values here: PIVOT … ON column IN (value, …)");
    default: break;
  }
  std::string kind = duckdb::StatementTypeToString(statement.type);
  return Status::invalid("a trace can only be read: " + kind + " is not allowed (use SELECT, WITH, SHOW, DESCRIBE, SUMMARIZE or EXPLAIN)");
}

}  // namespace

Status parseReadOnly(duckdb::Connection& connection, const std::string& sql,
                     duckdb::vector<duckdb::unique_ptr<duckdb::SQLStatement>>& statements) {
  statements = connection.ExtractStatements(sql);
  if (statements.empty()) return Status::invalid("there is no SQL statement in the text");
  for (auto& statement : statements) TS_TRY(checkReadOnly(*statement));
  return {};
}

}  // namespace tracesmith::query
