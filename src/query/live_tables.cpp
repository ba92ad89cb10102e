#include "query/live_tables.hpp"

#include <algorithm>
#include <duckdb/catalog/catalog.hpp>
#include <duckdb/parser/parsed_data/create_table_function_info.hpp>
#include <utility>

namespace tracesmith::query {
namespace {

using duckdb::ClientContext;
using duckdb::LogicalType;
using model::LiveCell;

struct Source : duckdb::TableFunctionInfo {
  LiveRows rows;
};

struct Bound : duckdb::TableFunctionData {
  const model::LiveTable* table = nullptr;
  LiveRows rows;
};

struct Read : duckdb::GlobalTableFunctionState {
  std::vector<model::LiveCells> rows;
  size_t next = 0;
};

LogicalType sqlType(model::LiveColumn::Type type) {
  using enum model::LiveColumn::Type;
  switch (type) {
    case boolean:
      return LogicalType::BOOLEAN;
    case integer:
      return LogicalType::BIGINT;
    case real:
      return LogicalType::DOUBLE;
    case integers:
      return LogicalType::LIST(LogicalType::BIGINT);
    default:
      return LogicalType::VARCHAR;
  }
}

/// What a process says of itself need not be UTF-8.
duckdb::Value textOf(std::string text) {
  if (!duckdb::Value::StringIsValid(text))
    for (char& c : text)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return duckdb::Value(std::move(text));
}

duckdb::Value valueOf(const LiveCell& cell, const LogicalType& type) {
  if (const auto* text = std::get_if<std::string>(&cell)) return textOf(*text);
  if (const auto* number = std::get_if<int64_t>(&cell)) return duckdb::Value::BIGINT(*number);
  if (const auto* real = std::get_if<double>(&cell)) return duckdb::Value::DOUBLE(*real);
  if (const auto* flag = std::get_if<bool>(&cell)) return duckdb::Value::BOOLEAN(*flag);
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&cell)) {
    duckdb::vector<duckdb::Value> values;
    for (const int64_t number : *numbers) values.push_back(duckdb::Value::BIGINT(number));
    return duckdb::Value::LIST(LogicalType::BIGINT, std::move(values));
  }
  return duckdb::Value(type);
}

duckdb::unique_ptr<duckdb::FunctionData> bind(ClientContext&, duckdb::TableFunctionBindInput& input,
                                              duckdb::vector<LogicalType>& types,
                                              duckdb::vector<duckdb::string>& names) {
  auto bound = duckdb::make_uniq<Bound>();
  const std::string name = input.inputs[0].IsNull() ? "" : duckdb::StringValue::Get(input.inputs[0]);
  bound->table = model::findLiveTable(name);
  if (!bound->table) throw duckdb::BinderException("there is no live table \"%s\"", name);
  bound->rows = input.info->Cast<Source>().rows;
  for (const model::LiveColumn& c : bound->table->columns) {
    types.push_back(sqlType(c.type));
    names.emplace_back(c.name);
  }
  return bound;
}

/// Nodes are asked when a statement runs, not when it is planned: EXPLAIN asks nobody.
duckdb::unique_ptr<duckdb::GlobalTableFunctionState> start(ClientContext&, duckdb::TableFunctionInitInput& input) {
  const auto& bound = input.bind_data->Cast<Bound>();
  Result<std::vector<model::LiveCells>> rows = bound.rows(bound.table->name);
  if (!rows) throw duckdb::IOException(rows.status().message());
  auto read = duckdb::make_uniq<Read>();
  read->rows = std::move(*rows);
  return read;
}

void scan(ClientContext&, duckdb::TableFunctionInput& input, duckdb::DataChunk& chunk) {
  auto& read = input.global_state->Cast<Read>();
  const size_t n = std::min<size_t>(STANDARD_VECTOR_SIZE, read.rows.size() - read.next);
  for (size_t r = 0; r < n; ++r)
    for (size_t c = 0; c < chunk.ColumnCount(); ++c)
      chunk.SetValue(c, r, valueOf(read.rows[read.next + r][c], chunk.data[c].GetType()));
  read.next += n;
  chunk.SetCardinality(n);
}

}  // namespace

void registerLiveTables(duckdb::Connection& connection, LiveRows rows) {
  auto source = duckdb::make_shared_ptr<Source>();
  source->rows = std::move(rows);
  duckdb::TableFunction function("live_scan", {LogicalType::VARCHAR}, scan, bind, start);
  function.function_info = source;
  duckdb::CreateTableFunctionInfo create(function);
  connection.BeginTransaction();
  duckdb::Catalog::GetSystemCatalog(*connection.context).CreateTableFunction(*connection.context, create);
  connection.Commit();
  std::string views = "CREATE SCHEMA live;";
  for (const model::LiveTable& table : model::liveTables())
    views += std::string("CREATE VIEW live.") + table.name + " AS SELECT * FROM live_scan('" + table.name + "');";
  auto result = connection.Query(views);
  if (result->HasError()) result->ThrowError();
}

}  // namespace tracesmith::query
