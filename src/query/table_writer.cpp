#include "query/table_writer.hpp"

#include <deque>
#include <utf8proc_wrapper.hpp>

#include "base/text.hpp"
#include "query/result_cells.hpp"

namespace tracesmith::query {
namespace {

using Names = duckdb::vector<duckdb::string>;
using Types = duckdb::vector<duckdb::LogicalType>;

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
      type_names_.push_back(types[i].id() == duckdb::LogicalTypeId::ENUM ? "enum" : lower(types[i].ToString()));
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
      size_t before = center ? space / 2 : types_[i].IsNumeric() ? space : 0;
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

std::unique_ptr<ResultWriter> makeTableWriter(const RunOptions& options, const Names& names, const Types& types) {
  return std::make_unique<TableWriter>(options, names, types);
}

}  // namespace tracesmith::query
