#include "trace/export/row_source.hpp"

#include <numeric>

namespace tracesmith::trace {
namespace {

std::vector<int> orAll(std::vector<int> columns, const TableInfo& table) {
  if (columns.empty()) {
    columns.resize(table.columns.size());
    std::iota(columns.begin(), columns.end(), 0);
  }
  return columns;
}

}  // namespace

BlockRows::BlockRows(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns)
    : reader_(reader),
      table_(table),
      scan_(reader, table, std::move(selection), orAll(columns, table)),
      columns_(orAll(columns, table)) {
  candidates_.swap(scan_.blocks());
}

bool BlockRows::load(const Block& block) {
  scan_.blocks().push_back(&block);
  if (!scan_.next()) return false;
  block_ = &block;
  data_.assign(table_.columns.size(), nullptr);
  for (int c : columns_) data_[static_cast<size_t>(c)] = &scan_.column(c);
  Result<const Strings*> strings = reader_.strings(block.stream);
  if (!strings) {
    status_ = strings.status();
    return false;
  }
  strings_ = *strings;
  return true;
}

std::string_view BlockRows::text(int column, uint32_t row) const {
  const ColumnData& data = *data_[static_cast<size_t>(column)];
  if (!data.valid(row)) return {};
  if (table_.columns[static_cast<size_t>(column)].kind == Kind::Text) {
    std::string_view text = data.textAt(row);
    return text.data() ? text : std::string_view("");
  }
  return strings_->at(data.data<uint32_t>()[row]);
}

CopiedRows::CopiedRows(const BlockRows& from, const std::vector<uint32_t>& rows) {
  const TableInfo& table = from.table();
  place_.assign(table.columns.size(), 0);
  auto kind = [&](int c) { return table.columns[static_cast<size_t>(c)].kind; };
  auto isText = [&](int c) { return kind(c) == Kind::Str || kind(c) == Kind::Text || kind(c) == Kind::Launch; };
  size_t heap = 0;
  for (int c : from.columns()) {
    place_[static_cast<size_t>(c)] = isText(c) ? text_width_++ : width_++;
    if (kind(c) == Kind::Text)
      for (uint32_t r : rows) heap += from.text(c, r).size();
  }
  heap_.reserve(heap);  // never grows from here: views into it stay valid
  slots_.resize(rows.size() * width_);
  texts_.resize(rows.size() * text_width_);
  for (int c : from.columns()) {
    const size_t place = place_[static_cast<size_t>(c)];
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!isText(c)) {
        slots_[i * width_ + place] = from.slot(c, rows[i]);
        continue;
      }
      std::string_view text = from.text(c, rows[i]);
      if (kind(c) == Kind::Text && !text.empty()) {
        heap_ += text;
        text = std::string_view(heap_).substr(heap_.size() - text.size());
      } else if (kind(c) == Kind::Text && text.data()) {
        text = "";  // empty, but not NULL
      }
      texts_[i * text_width_ + place] = text;
    }
  }
}

}  // namespace tracesmith::trace
