#include "query/output.hpp"

#include "base/text.hpp"
#include "query/arrow_writer.hpp"
#include "query/result_cells.hpp"
#include "query/table_writer.hpp"

namespace tracesmith::query {
namespace {

using duckdb::LogicalType;
using duckdb::LogicalTypeId;

using Names = duckdb::vector<duckdb::string>;
using Types = duckdb::vector<LogicalType>;

constexpr size_t kFlushBytes = 1 << 16;

bool isNumber(const LogicalType& type) { return type.IsNumeric(); }

class StreamWriter : public ResultWriter {
 public:
  StreamWriter(const RunOptions& options, Types types) : write_(options.write), types_(std::move(types)) {}

 protected:
  virtual void row(const std::vector<Cells>& cells, size_t row) = 0;

  Status chunk(duckdb::DataChunk& chunk) override {
    std::vector<Cells> cells;
    cells.reserve(chunk.ColumnCount());
    for (auto& vector : chunk.data) cells.emplace_back(vector, chunk.size());
    for (size_t r = 0; r < chunk.size(); ++r) {
      row(cells, r);
      if (out_.size() >= kFlushBytes) TS_TRY(flush());
    }
    return {};
  }
  Status flush() {
    Status s = write_(out_);
    out_.clear();
    return s;
  }

  const Write& write_;
  Types types_;
  std::string out_;
};

class CsvWriter : public StreamWriter {
 public:
  CsvWriter(const RunOptions& options, const Names& names, const Types& types) : StreamWriter(options, types) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) out_ += ',';
      field(names[i]);
    }
    out_ += '\n';
  }
  Status end() override { return flush(); }

 private:
  void row(const std::vector<Cells>& cells, size_t row) override {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out_ += ',';
      if (cells[i].null(row)) continue;
      if (cells[i].isInt()) {
        cells[i].append(out_, row);
      } else {
        text_.clear();
        cells[i].append(text_, row);
        field(text_);
      }
    }
    out_ += '\n';
  }
  /// An empty string is "", so that it is not taken for NULL.
  void field(std::string_view text) {
    if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos) {
      out_ += text;
      return;
    }
    out_ += '"';
    for (char c : text) {
      if (c == '"') out_ += '"';
      out_ += c;
    }
    out_ += '"';
  }
  std::string text_;
};

void appendJson(std::string& out, const duckdb::Value& value) {
  if (value.IsNull()) {
    out += "null";
    return;
  }
  const LogicalType& type = value.type();
  switch (type.id()) {
    case LogicalTypeId::BOOLEAN:
      out += value.GetValue<bool>() ? "true" : "false";
      return;
    case LogicalTypeId::FLOAT:
    case LogicalTypeId::DOUBLE:
      appendJsonNumber(out, value.GetValue<double>());
      return;
    case LogicalTypeId::LIST:
    case LogicalTypeId::ARRAY: {
      const auto& children = type.id() == LogicalTypeId::LIST ? duckdb::ListValue::GetChildren(value)
                                                              : duckdb::ArrayValue::GetChildren(value);
      out += '[';
      for (size_t i = 0; i < children.size(); ++i) {
        if (i > 0) out += ',';
        appendJson(out, children[i]);
      }
      out += ']';
      return;
    }
    case LogicalTypeId::STRUCT: {
      const auto& children = duckdb::StructValue::GetChildren(value);
      out += '{';
      for (size_t i = 0; i < children.size(); ++i) {
        if (i > 0) out += ',';
        appendJsonString(out, duckdb::StructType::GetChildName(type, i));
        out += ':';
        appendJson(out, children[i]);
      }
      out += '}';
      return;
    }
    default:
      break;
  }
  // Integers of any width and decimals, digit by digit as they are.
  if (isNumber(type))
    out += value.ToString();
  else
    appendJsonString(out, value.ToString());
}

class JsonRows : public StreamWriter {
 public:
  JsonRows(const RunOptions& options, const Names& names, const Types& types) : StreamWriter(options, types) {
    for (const std::string& name : names) {
      std::string key = keys_.empty() ? "{" : ",";
      appendJsonString(key, name);
      keys_.push_back(key + ":");
    }
    out_ += '[';
  }
  Status end() override {
    out_ += first_ ? "]\n" : "\n]\n";
    return flush();
  }

 private:
  void row(const std::vector<Cells>& cells, size_t row) override {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    for (size_t i = 0; i < cells.size(); ++i) {
      out_ += keys_[i];
      if (cells[i].null(row))
        out_ += "null";
      else if (cells[i].isInt())
        appendInt(out_, cells[i].integer(row));
      else if (cells[i].isString())
        appendJsonString(out_, cells[i].string(row));
      else
        appendJson(out_, cells[i].value(row));
    }
    out_ += '}';
  }
  std::vector<std::string> keys_;
  bool first_ = true;
};

/// The inside of a JSON object: what a page shows as a table.
class ColumnsAndRows : public StreamWriter {
 public:
  ColumnsAndRows(const RunOptions& options, const Names& names, const Types& types) : StreamWriter(options, types) {
    out_ += "\"columns\":[";
    for (size_t i = 0; i < names.size(); ++i) {
      out_ += i == 0 ? "{\"name\":" : ",{\"name\":";
      appendJsonString(out_, names[i]);
      out_ += ",\"type\":";
      appendJsonString(out_, types[i].id() == LogicalTypeId::ENUM ? "ENUM" : types[i].ToString());
      out_ += '}';
    }
    out_ += "],\"rows\":[";
  }
  Status end() override {
    out_ += ']';
    return flush();
  }

 private:
  void row(const std::vector<Cells>& cells, size_t row) override {
    constexpr int64_t kExact = int64_t{1} << 53;
    out_ += first_ ? "[" : ",\n[";
    first_ = false;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) out_ += ',';
      if (cells[i].null(row)) {
        out_ += "null";
      } else if (cells[i].isInt()) {
        const int64_t v = cells[i].integer(row);
        const bool exact = v >= -kExact && v <= kExact;
        if (!exact) out_ += '"';
        appendInt(out_, v);
        if (!exact) out_ += '"';
      } else if (cells[i].isString()) {
        appendJsonString(out_, cells[i].string(row));
      } else {
        text_.clear();
        appendJson(text_, cells[i].value(row));
        const bool wide = isNumber(types_[i]) && text_.find_first_of(".eE") == std::string::npos && text_.size() > 15;
        if (wide && text_[0] != '"') text_ = '"' + text_ + '"';
        out_ += text_;
      }
    }
    out_ += ']';
  }
  bool first_ = true;
  std::string text_;
};

}  // namespace

std::unique_ptr<ResultWriter> makeWriter(const RunOptions& options, const Names& names, const Types& types) {
  if (options.format == Format::kArrow) return makeArrowWriter(options, names, types);
  if (options.format == Format::kCsv) return std::make_unique<CsvWriter>(options, names, types);
  if (options.format == Format::kJson) return std::make_unique<JsonRows>(options, names, types);
  if (options.format == Format::kRows) return std::make_unique<ColumnsAndRows>(options, names, types);
  return makeTableWriter(options, names, types);
}

}  // namespace tracesmith::query
