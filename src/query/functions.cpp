#include "query/functions.hpp"

#include <duckdb/catalog/catalog.hpp>
#include <duckdb/catalog/catalog_entry/schema_catalog_entry.hpp>
#include <duckdb/main/client_context.hpp>
#include <duckdb/parser/parsed_data/drop_info.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tracesmith::query {
namespace {

using duckdb::CatalogType;

/// Table functions that make rows from their arguments, and those behind SHOW, DESCRIBE and the views of
/// information_schema, which DuckDB looks at together.
const std::set<std::string> kTableFunctions = {"generate_series",  "histogram",
                                               "histogram_values", "icu_calendar_names",
                                               "json_each",        "json_tree",
                                               "live_scan",        "pg_timezone_names",
                                               "query_table",      "range",
                                               "repeat",           "repeat_row",
                                               "sbt_scan",         "unnest",
                                               "duckdb_columns",   "duckdb_constraints",
                                               "duckdb_databases", "duckdb_dependencies",
                                               "duckdb_functions", "duckdb_indexes",
                                               "duckdb_keywords",  "duckdb_log_contexts",
                                               "duckdb_logs",      "duckdb_prepared_statements",
                                               "duckdb_settings",  "duckdb_schemas",
                                               "duckdb_sequences", "duckdb_tables",
                                               "duckdb_types",     "duckdb_views",
                                               "pragma_show",      "pragma_table_info"};

/// Of the others, those that reach the environment, or change the engine.
const std::set<std::string> kOtherFunctions = {"getenv", "getvariable", "write_log"};
/// These run when a statement is parsed. PRAGMA itself is refused.
const std::set<std::string> kPragmas = {"copy_database", "import_database", "json_execute_serialized_sql"};

bool isAllowed(CatalogType type, const std::string& name) {
  if (type == CatalogType::TABLE_FUNCTION_ENTRY) return kTableFunctions.contains(name);
  return !(type == CatalogType::PRAGMA_FUNCTION_ENTRY ? kPragmas : kOtherFunctions).contains(name);
}

}  // namespace

void removeFunctions(duckdb::Connection& connection) {
  duckdb::ClientContext& context = *connection.context;
  context.RunFunctionInTransaction([&] {
    duckdb::Catalog& catalog = duckdb::Catalog::GetSystemCatalog(context);
    std::vector<std::reference_wrapper<duckdb::SchemaCatalogEntry>> schemas;
    catalog.ScanSchemas(context, [&](duckdb::SchemaCatalogEntry& schema) { schemas.emplace_back(schema); });
    for (duckdb::SchemaCatalogEntry& schema : schemas)
      for (CatalogType type : {CatalogType::TABLE_FUNCTION_ENTRY, CatalogType::SCALAR_FUNCTION_ENTRY,
                               CatalogType::PRAGMA_FUNCTION_ENTRY}) {
        std::map<std::string, CatalogType> entries;  // macros are of a type of their own
        schema.Scan(context, type, [&](duckdb::CatalogEntry& entry) {
          if (!isAllowed(type, entry.name)) entries.emplace(entry.name, entry.type);
        });
        for (const auto& [name, own_type] : entries) {
          duckdb::DropInfo info;
          info.type = own_type;
          info.schema = schema.name;
          info.name = name;
          info.allow_drop_internal = true;
          schema.DropEntry(context, info);
        }
      }
  });
}

std::string missingFunction(const duckdb::ErrorData& error) {
  // "Table Function with name read_csv does not exist!…", and with quotes where an extension has one of that name.
  static constexpr std::string_view kWith = " Function with name ";
  const std::string& text = error.RawMessage();
  const size_t at = text.find(kWith);
  if (error.Type() != duckdb::ExceptionType::CATALOG || at == std::string::npos) return {};
  size_t from = at + kWith.size();
  if (text[from] == '"') ++from;
  const std::string name = duckdb::StringUtil::Lower(text.substr(from, text.find_first_of("\" ", from) - from));
  if (text.compare(0, at, "Table") != 0 && !kOtherFunctions.contains(name) && !kPragmas.contains(name)) return {};
  return "the function " + name +
         " is not available: a query reads the tables of traces (SHOW TABLES), not files or settings";
}

}  // namespace tracesmith::query
