#include "trace/rows.hpp"

#include <algorithm>
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
  block_ = nullptr;
  if (!scan_.next()) return false;
  block_ = &block;
  data_.assign(table_.columns.size(), nullptr);
  for (int c : columns_) data_[static_cast<size_t>(c)] = &scan_.column(c);
  Result<const Strings*> strings = reader_.strings(block.stream);
  if (!strings) {
    status_ = strings.status();
    block_ = nullptr;
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

void BlockRows::fill(int column, size_t first, size_t count, const NameNumbers* names, int64_t* slots,
                     size_t stride) const {
  const ColumnData& data = *data_[static_cast<size_t>(column)];
  const Kind kind = table_.columns[static_cast<size_t>(column)].kind;
  if (kind == Kind::Text || data.allNull()) return;
  const std::span<const uint32_t> matching = rows();
  const bool whole = matching.size() == block_->rows;  // row i is the i-th
  auto copy = [&](const auto* values, auto convert) {
    if (whole && !data.hasNulls()) {
      for (size_t i = 0; i < count; ++i) slots[i * stride] = convert(values[first + i]);
      return;
    }
    for (size_t i = 0; i < count; ++i)
      if (const size_t row = whole ? first + i : matching[first + i]; data.valid(row))
        slots[i * stride] = convert(values[row]);
  };
  auto same = [](int64_t v) { return v; };
  if (kind == Kind::Type) return copy(data.data<uint8_t>(), same);
  if (kind == Kind::Int32) return copy(data.data<int32_t>(), same);
  if (kind != Kind::Str && kind != Kind::Launch) return copy(data.data<int64_t>(), same);
  if (!names) return copy(data.data<uint32_t>(), same);
  const std::vector<uint32_t>& numbers = names->stream(block_->stream);
  copy(data.data<uint32_t>(), [&](uint32_t v) { return v < numbers.size() ? int64_t{numbers[v]} : kNull; });
}

SlotCursor::SlotCursor(const Reader& reader, const TableInfo& table, std::vector<int> columns, Selection selection,
                       const NameNumbers* names)
    : rows_(reader, table, std::move(selection), std::move(columns)),
      names_(names),
      width_(table.columns.size()),
      blocks_(rows_.candidates()) {}

bool SlotCursor::refill() {
  constexpr size_t kAtOnce = 512;  // rows that stay in the cache while they are filled column by column
  first_ += count_;
  at_ = count_ = 0;
  while (!rows_.loaded() || first_ >= rows_.rows().size()) {
    if (next_block_ >= blocks_.size()) return false;
    first_ = 0;
    if (!rows_.load(*blocks_[next_block_++]) && !rows_.status()) return false;
  }
  count_ = std::min(kAtOnce, rows_.rows().size() - first_);
  slots_.assign(count_ * width_, kNull);
  for (int c : rows_.columns()) rows_.fill(c, first_, count_, names_, slots_.data() + c, width_);
  return true;
}

bool isSimulated(const Reader& reader) {
  RowCursor<NodeRow> node(reader, {nodes::os});
  while (node.next())
    if (node.text(nodes::os) == kSimulated) return true;
  RowCursor<DeviceRow> device(reader, {devices::vendor});
  while (device.next())
    if (device.text(devices::vendor) == kSimulated) return true;
  return false;
}

}  // namespace tracesmith::trace
