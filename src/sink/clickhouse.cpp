#include "sink/clickhouse.hpp"

#include <cctype>
#include <functional>
#include <set>
#include <sstream>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "trace/sql_columns.hpp"

namespace tracesmith::sink {

using namespace trace;

namespace {

constexpr int kAnswerS = 300;

/// For an address.
std::string escaped(const std::string& text) {
  static const char* const kDigits = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '_' || c == '-' || c == '.')
      out += c;
    else
      (out += '%') += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// The type of a column that is stored.
const char* typeOf(std::string_view sql) {
  if (sql == "BIGINT") return "Nullable(Int64)";
  if (sql == "INTEGER") return "Nullable(Int32)";
  if (sql == "DOUBLE") return "Nullable(Float64)";
  return "Nullable(String)";
}

/// A column that is added up when it is asked for.
bool isSum(const TableInfo& table, const SqlColumn& c) {
  const int index = table.find(c.name);
  return index >= 0 && table.columns[static_cast<size_t>(index)].kind == Kind::Sum;
}

struct Stored {
  std::string name, type;
};

/// In the order in which appendRows() writes them.
std::vector<Stored> storedColumns(const TableInfo& table) {
  std::vector<Stored> columns;
  for (const SqlColumn& c : sqlColumns(table))
    if (!isSum(table, c)) columns.push_back({c.name, typeOf(c.type)});
  for (const auto& [name, type] :
       {std::pair("_day", "Date"), std::pair("_node", "String"), std::pair("_epoch", "String"),
        std::pair("_segment", "UInt32"), std::pair("_offset", "UInt64"), std::pair("_row", "UInt32")})
    columns.push_back({name, type});
  return columns;
}

std::string rowsTable(const TableInfo& table) { return std::string("tracesmith.") + table.name + "_rows"; }

template <typename T>
void number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void text(std::string& out, std::string_view value) {
  uint64_t size = value.size();
  for (; size >= 0x80; size >>= 7) out += static_cast<char>(size | 0x80);
  out += static_cast<char>(size);
  out += value;
}

void maybeText(std::string& out, std::string_view value) {
  out += static_cast<char>(value.data() == nullptr);
  if (value.data()) text(out, value);
}

template <typename T>
void maybe(std::string& out, bool null, T value) {
  out += static_cast<char>(null);
  if (!null) number(out, value);
}

void appendColumn(std::string& out, const BlockRows& rows, const ColumnInfo& column, int index, uint32_t row) {
  if (column.kind == Kind::Sum) return;  // the view adds it up
  if (column.kind == Kind::Str || column.kind == Kind::Text) return maybeText(out, rows.text(index, row));
  if (column.kind == Kind::Launch) {
    const LaunchShape shape = LaunchShape::parse(rows.text(index, row));
    for (const LaunchField& field : launchFields())
      maybe(out, !(shape.*field.value), static_cast<int32_t>((shape.*field.value).value_or(0)));
    return;
  }
  const int64_t slot = rows.slot(index, row);
  if (column.kind == Kind::Type)
    return maybeText(out, slot == kNull ? std::string_view() : eventTypeName(static_cast<EventType>(slot)));
  if (column.kind == Kind::Int32) return maybe(out, slot == kNull, static_cast<int32_t>(slot));
  maybe(out, slot == kNull, slot);  // of Real, its bits
}

}  // namespace

Result<std::unique_ptr<ClickHouse>> ClickHouse::open(const std::string& url, const Options& options) {
  Result<std::unique_ptr<HttpPoster>> http = HttpPoster::open("clickhouse", url, "/", options, kAnswerS);
  if (!http) return http.status();
  auto server = std::make_unique<ClickHouse>();
  server->http_ = std::move(*http);
  std::string host = server->address().substr(server->address().find("://") + 3);
  host.resize(std::min(host.find('/'), host.size()));
  if (const size_t colon = host.rfind(':'); colon != std::string::npos && host.find(']', colon) == std::string::npos)
    host.resize(colon);
  const size_t native = url.find("native=");
  int64_t port = 9000;
  if (native != std::string::npos && !parseInt(url.substr(native + 7), port))
    return Status::invalid("--clickhouse: '" + url.substr(native) + "' is not native=PORT");
  server->native_ = host + ":" + std::to_string(port);
  server->id_ = "tracesmith-" + std::to_string(std::hash<std::string>()(options.folder)) + "-";
  return server;
}

Result<std::string> ClickHouse::ask(const std::string& sql) {
  std::string answer;
  const Delivery d = http_->post("/", "text/plain", {}, sql, &answer);
  if (d.outcome != Delivery::Outcome::sent) return Status::io(d.problem);
  return answer;
}

Result<std::string> ClickHouse::read(const std::string& sql) {
  std::string answer;
  const Delivery d = http_->post("/?readonly=2&database=tracesmith&output_format_json_quote_64bit_integers=0",
                                 "text/plain", {}, sql, &answer);
  if (d.outcome == Delivery::Outcome::sent) return answer;
  return d.problem.find("Code: ") == std::string::npos ? Status::io(d.problem) : Status::invalid(d.problem);
}

Status ClickHouse::insert(const TableInfo& table, const std::string& rows) {
  std::string columns;  // by name: a table of an older version has them in another order
  for (const Stored& c : storedColumns(table)) columns += (columns.empty() ? "`" : ", `") + c.name + "`";
  // All rows of a statement are one block there, which is stored as a whole.
  const Delivery d =
      http_->post("/?max_insert_block_size=4000000&query_id=" + id_ + std::to_string(rawClock()) +
                      "&query=" + escaped("INSERT INTO " + rowsTable(table) + " (" + columns + ") FORMAT RowBinary"),
                  "application/octet-stream", {}, rows);
  return d.outcome == Delivery::Outcome::sent ? Status() : Status::io(d.problem);
}

Result<bool> ClickHouse::inserting() {
  Result<std::string> count = ask("SELECT count() FROM system.processes WHERE query_id LIKE '" + id_ + "%'");
  if (!count) return count.status();
  return *count != "0\n";
}

std::vector<std::string> splitUrls(const std::string& urls) {
  std::vector<std::string> all;
  for (size_t from = 0; from <= urls.size();) {
    const size_t comma = std::min(urls.find(',', from), urls.size());
    if (comma > from) all.push_back(urls.substr(from, comma - from));
    from = comma + 1;
  }
  return all;
}

Status ClickHouse::define(const std::string& sql) { return ask(sql).status(); }

Status ClickHouse::prepare(const std::vector<std::string>& natives) {
  std::string hosts;
  for (const std::string& native : natives) hosts += (hosts.empty() ? "" : ",") + native;
  TS_TRY(define("CREATE DATABASE IF NOT EXISTS tracesmith"));
  const Result<std::string> there =
      ask("SELECT concat(table, ' ', name) FROM system.columns WHERE database = 'tracesmith'");
  if (!there) return there.status();
  std::set<std::string> known;
  std::istringstream lines(*there);
  for (std::string line; std::getline(lines, line);) known.insert(line);
  for (const TableInfo& table : tables()) {
    const std::string name = std::string(table.name) + "_rows";
    const bool exists = known.contains(name + " _node");
    std::string columns, shown;
    for (const Stored& c : storedColumns(table)) {
      columns += (columns.empty() ? "`" : ", `") + c.name + "` " + c.type;
      if (exists && !known.contains(name + " " + c.name))
        TS_TRY(define("ALTER TABLE tracesmith." + name + " ADD COLUMN `" + c.name + "` " + c.type));
    }
    if (!exists)
      TS_TRY(define("CREATE TABLE IF NOT EXISTS tracesmith." + name + " (" + columns +
                    ") ENGINE = MergeTree PARTITION BY _day ORDER BY (_node, _epoch, _segment, _offset, _row)"));
    for (const SqlColumn& c : sqlColumns(table))
      shown += std::string(shown.empty() ? "" : ", ") + (isSum(table, c) ? "ts + dur AS `" : "`") + c.name + "`";
    TS_TRY(define(std::string("DROP TABLE IF EXISTS tracesmith.") + table.name));
    TS_TRY(define(std::string("CREATE VIEW tracesmith.") + table.name + " AS SELECT " + shown + " FROM " +
                  (natives.size() < 2 ? "tracesmith." + name : "remote('" + hosts + "', tracesmith, " + name + ")")));
  }
  return {};
}

std::string originCondition(const RowOrigin& origin) {
  return "_node = " + quoted(origin.node) + " AND _epoch = " + quoted(origin.epoch) +
         " AND _segment = " + std::to_string(origin.segment);
}

void appendRows(std::string& out, const RowOrigin& origin, const BlockRows& rows, uint32_t first) {
  const TableInfo& table = rows.table();
  for (const uint32_t row : rows.rows()) {
    if (row < first) continue;
    for (size_t i = 0; i < table.columns.size(); ++i)
      appendColumn(out, rows, table.columns[i], static_cast<int>(i), row);
    number(out, origin.day);
    text(out, origin.node);
    text(out, origin.epoch);
    number(out, origin.segment);
    number(out, rows.block().offset);
    number(out, row);
  }
}

}  // namespace tracesmith::sink
