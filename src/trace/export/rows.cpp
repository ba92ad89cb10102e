// Rows of one table as CSV or as lines of JSON.
#include <charconv>

#include "base/text.hpp"
#include "trace/export/export.hpp"
#include "trace/rows.hpp"

namespace tracesmith::trace {
namespace {

/// One value of a row, whatever it is.
struct Value {
  enum { kNothing, kInteger, kReal, kText } kind = kNothing;
  int64_t integer = 0;
  std::string_view text{};
};

/// Calls visit(name, Value) for every column; a launch shape is nine of them. Without a row: only their names.
template <typename Visit>
void forEachColumn(const TableInfo& table, const Row* row, Visit visit) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const ColumnInfo& column = table.columns[i];
    const int c = static_cast<int>(i);
    Value v;
    switch (column.kind) {
      case Kind::Launch: {
        const LaunchShape shape = row ? LaunchShape::parse(row->text(c)) : LaunchShape();
        for (const LaunchField& field : launchFields()) {
          const std::optional<int32_t> number = shape.*field.value;
          visit(field.name, number ? Value{Value::kInteger, *number} : Value());
        }
        continue;
      }
      case Kind::Str:
      case Kind::Text:
        if (row) v.text = row->text(c);
        if (v.text.data()) v.kind = Value::kText;
        break;
      case Kind::Type:
        if (row && row->slot(c) != kNull) v = {Value::kText, 0, eventTypeName(static_cast<EventType>(row->slot(c)))};
        break;
      default:
        if (row) v.integer = row->slot(c);
        if (row && v.integer != kNull) v.kind = column.kind == Kind::Real ? Value::kReal : Value::kInteger;
    }
    visit(column.name, v);
  }
}

void appendInteger(std::string& out, int64_t v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

void appendCsvText(std::string& out, std::string_view text) {
  size_t start = out.size();
  appendUtf8(out, text);
  for (size_t i = start; i < out.size(); ++i)
    if (out[i] == '\0') out.replace(i, 1, "\xef\xbf\xbd");  // most readers of CSV stop at a NUL
  if (!text.empty() && out.find_first_of(",\"\r\n", start) == std::string::npos) return;
  std::string quoted = "\"";
  for (size_t i = start; i < out.size(); ++i) {
    if (out[i] == '"') quoted += '"';
    quoted += out[i];
  }
  out.replace(start, std::string::npos, quoted + '"');
}

/// Writes every selected row as `line` makes it.
template <typename Line>
Status writeRows(Export& e, const TableInfo& table, Line line) {
  const uint64_t total = e.reader.rows(table);
  std::string text;
  return forEachRow(e.reader, table, e.selection, {}, [&](const Row& row) {
    text.clear();
    line(row, text);
    if ((++e.rows & 0xffff) == 0) e.progress.update(e.rows, total);
    return e.out.write(text);
  });
}

}  // namespace

Status exportCsv(Export& e, const TableInfo& table) {
  std::string heading;
  forEachColumn(table, nullptr,
                [&](const char* name, const Value&) { (heading += heading.empty() ? "" : ",") += name; });
  TS_TRY(e.out.write(heading + "\r\n"));
  return writeRows(e, table, [&](const Row& row, std::string& line) {
    bool first = true;
    forEachColumn(table, &row, [&](const char*, const Value& v) {
      if (!first) line += ',';
      first = false;
      if (v.kind == Value::kInteger) appendInteger(line, v.integer);
      if (v.kind == Value::kReal) appendJsonNumber(line, std::bit_cast<double>(v.integer));
      if (v.kind == Value::kText) appendCsvText(line, v.text);
    });
    line += "\r\n";
  });
}

void appendJsonRow(std::string& out, const TableInfo& table, const Row& row) {
  char separator = '{';
  forEachColumn(table, &row, [&](const char* name, const Value& v) {
    out += separator;
    separator = ',';
    out += '"';
    out += name;
    out += "\":";
    if (v.kind == Value::kNothing) out += "null";
    if (v.kind == Value::kInteger) appendInteger(out, v.integer);
    if (v.kind == Value::kReal) appendJsonNumber(out, std::bit_cast<double>(v.integer));
    if (v.kind == Value::kText) appendJsonString(out, v.text);
  });
  out += '}';
}

Status exportJsonLines(Export& e, const TableInfo& table) {
  return writeRows(e, table, [&](const Row& row, std::string& line) {
    appendJsonRow(line, table, row);
    line += '\n';
  });
}

}  // namespace tracesmith::trace
