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

}  // namespace tracesmith::trace
