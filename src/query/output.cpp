#include "query/output.hpp"

#include <charconv>
#include <deque>
#include <utf8proc_wrapper.hpp>

#include "base/text.hpp"
#include "query/arrow_writer.hpp"

namespace tracesmith::query {
namespace {

using duckdb::LogicalType;
using duckdb::LogicalTypeId;
using duckdb::UnifiedVectorFormat;

using Names = duckdb::vector<duckdb::string>;
using Types = duckdb::vector<LogicalType>;

constexpr size_t kFlushBytes = 1 << 16;

bool isNumber(const LogicalType& type) { return type.IsNumeric(); }

void appendInt(std::string& out, int64_t v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

/// One column of a chunk, with a short way for the common types.
class Cells {
 public:
  Cells(duckdb::Vector& vector, size_t count) : vector_(vector), physical_(vector.GetType().InternalType()) {
    vector.ToUnifiedFormat(count, format_);
    plain_ = vector.GetType().id() == LogicalTypeId::BIGINT || vector.GetType().id() == LogicalTypeId::INTEGER ||
             vector.GetType().id() == LogicalTypeId::VARCHAR;
  }
  bool null(size_t row) const { return !format_.validity.RowIsValid(format_.sel->get_index(row)); }
  bool isString() const { return plain_ && physical_ == duckdb::PhysicalType::VARCHAR; }
  bool isInt() const { return plain_ && physical_ != duckdb::PhysicalType::VARCHAR; }
  std::string_view string(size_t row) const {
    const auto& s = UnifiedVectorFormat::GetData<duckdb::string_t>(format_)[format_.sel->get_index(row)];
    return {s.GetData(), s.GetSize()};
  }
  int64_t integer(size_t row) const {
    auto i = format_.sel->get_index(row);
    return physical_ == duckdb::PhysicalType::INT64 ? UnifiedVectorFormat::GetData<int64_t>(format_)[i]
                                                    : UnifiedVectorFormat::GetData<int32_t>(format_)[i];
  }
  duckdb::Value value(size_t row) const { return vector_.GetValue(row); }

  /// The text of a value that is not NULL.
  void append(std::string& out, size_t row) const {
    if (isInt())
      appendInt(out, integer(row));
    else if (isString())
      out += string(row);
    else
      out += value(row).ToString();
  }

 private:
  duckdb::Vector& vector_;
  duckdb::PhysicalType physical_;
  UnifiedVectorFormat format_;
  bool plain_;
};

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

/// Spaces and line ends as one line shows them.
std::string oneLine(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += '?';
    else
      out += c;
  }
  return out;
}

size_t width(const std::string& text) {
  size_t total = 0;
  for (size_t at = 0; at < text.size(); at = duckdb::Utf8Proc::NextGraphemeCluster(text.data(), text.size(), at))
    total += duckdb::Utf8Proc::RenderWidth(text.data(), text.size(), at);
  return total;
}

/// The text in at most `room` columns, cut with … where it is longer.
std::string cut(const std::string& text, size_t room) {
  if (width(text) <= room) return text;
  size_t used = 0, at = 0;
  while (at < text.size()) {
    size_t w = duckdb::Utf8Proc::RenderWidth(text.data(), text.size(), at);
    if (used + w + 1 > room) break;
    used += w;
    at = duckdb::Utf8Proc::NextGraphemeCluster(text.data(), text.size(), at);
  }
  return text.substr(0, at) + "…";
}

/// A box. Of a long result it keeps the first and the last rows only.
class TableWriter : public ResultWriter {
 public:
  TableWriter(const RunOptions& options, const Names& names, const Types& types) : options_(options), types_(types) {
    for (size_t i = 0; i < names.size(); ++i) {
      names_.push_back(oneLine(names[i]));
      type_names_.push_back(types[i].id() == LogicalTypeId::ENUM ? "enum" : lower(types[i].ToString()));
    }
    explain_ = names.size() == 2 && names[0] == "explain_key";
  }

  Status chunk(duckdb::DataChunk& chunk) override {
    std::vector<Cells> cells;
    cells.reserve(chunk.ColumnCount());
    for (auto& vector : chunk.data) cells.emplace_back(vector, chunk.size());
    if (explain_) {
      for (size_t r = 0; r < chunk.size(); ++r) TS_TRY(options_.write(std::string(cells[1].string(r)) + "\n"));
      return {};
    }
    const uint64_t head = (options_.max_rows + 1) / 2, tail = options_.max_rows - head;
    for (size_t r = 0; r < chunk.size(); ++r, ++rows_) {
      const bool all = options_.max_rows == 0;
      const bool first = all || rows_ < head;
      if (!first && tail == 0) continue;
      if (!first && chunk.size() - r > tail && rows_ >= options_.max_rows) continue;  // pushed out by this very chunk
      std::vector<std::string> row;
      for (const Cells& c : cells) {
        std::string text;
        if (c.null(r))
          text = "NULL";
        else
          c.append(text, r);
        row.push_back(oneLine(text));
      }
      (first ? head_ : tail_).push_back(std::move(row));
      if (!first && tail_.size() > tail) tail_.pop_front();
    }
    return {};
  }

  Status end() override {
    if (explain_) return {};
    std::vector<size_t> widths(names_.size());
    for (size_t i = 0; i < names_.size(); ++i) {
      widths[i] = std::max(width(names_[i]), width(type_names_[i]));
      for (const auto* rows : {&head_, &tail_})
        for (const auto& row : *rows) widths[i] = std::max(widths[i], width(row[i]));
    }
    shrink(widths);
    std::string out;
    rule(out, widths, "┌", "┬", "┐");
    line(out, widths, names_, true);
    line(out, widths, type_names_, true);
    rule(out, widths, "├", "┼", "┤");
    for (const auto& row : head_) line(out, widths, row, false);
    const uint64_t hidden = rows_ - head_.size() - tail_.size();
    if (hidden > 0) line(out, widths, std::vector<std::string>(names_.size(), "·"), true);
    for (const auto& row : tail_) line(out, widths, row, false);
    rule(out, widths, "└", "┴", "┘");
    if (hidden > 0)
      out += humanCount(rows_) + " rows (" + humanCount(rows_ - hidden) +
             " shown; --max-rows 0 or another --format shows all)\n";
    return options_.write(out);
  }

 private:
  static std::string lower(std::string s) {
    for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return s;
  }
  /// Takes from the widest column until the box fits.
  void shrink(std::vector<size_t>& widths) const {
    if (options_.max_width == 0) return;
    size_t total = 1;
    for (size_t w : widths) total += w + 3;
    while (total > options_.max_width) {
      auto widest = std::max_element(widths.begin(), widths.end());
      if (*widest <= 8) return;
      --*widest;
      --total;
    }
  }
  static void rule(std::string& out, const std::vector<size_t>& widths, const char* left, const char* middle,
                   const char* right) {
    for (size_t i = 0; i < widths.size(); ++i) {
      out += i == 0 ? left : middle;
      for (size_t k = 0; k < widths[i] + 2; ++k) out += "─";
    }
    out += right;
    out += '\n';
  }
  void line(std::string& out, const std::vector<size_t>& widths, const std::vector<std::string>& row,
            bool center) const {
    for (size_t i = 0; i < row.size(); ++i) {
      std::string text = cut(row[i], widths[i]);
      size_t space = widths[i] - std::min(widths[i], width(text));
      size_t before = center ? space / 2 : isNumber(types_[i]) ? space : 0;
      out += "│ " + std::string(before, ' ') + text + std::string(space - before, ' ') + ' ';
    }
    out += "│\n";
  }

  const RunOptions& options_;
  Types types_;
  std::vector<std::string> names_, type_names_;
  std::deque<std::vector<std::string>> head_, tail_;
  uint64_t rows_ = 0;
  bool explain_ = false;
};

}  // namespace

std::unique_ptr<ResultWriter> makeWriter(const RunOptions& options, const Names& names, const Types& types) {
  if (options.format == Format::kArrow) return makeArrowWriter(options, names, types);
  if (options.format == Format::kCsv) return std::make_unique<CsvWriter>(options, names, types);
  if (options.format == Format::kJson) return std::make_unique<JsonRows>(options, names, types);
  if (options.format == Format::kRows) return std::make_unique<ColumnsAndRows>(options, names, types);
  return std::make_unique<TableWriter>(options, names, types);
}

}  // namespace tracesmith::query
