// Rows of a table, one at a time, with their strings: what every exporter and view reads from.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {

/// The matching rows of one block at a time. Not thread safe.
class BlockRows {
 public:
  /// `columns`: indexes of the columns wanted; empty: all.
  BlockRows(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns);

  /// Decodes a block; false if no row of it matches, or it is damaged (then it is in reader.damage()), or on failure.
  bool load(const Block& block);
  /// Why load() failed; ok for damage.
  const Status& status() const { return status_; }

  const Block& block() const { return *block_; }
  std::span<const uint32_t> rows() const { return scan_.rows(); }
  /// The blocks that may have matching rows, in file order.
  const std::vector<const Block*>& candidates() const { return candidates_; }

  /// Value of any column but strings and texts, or kNull.
  int64_t slot(int column, uint32_t row) const {
    return slotAt(*data_[static_cast<size_t>(column)], table_.columns[static_cast<size_t>(column)].kind, row);
  }
  /// String, launch shape or text; data() is null for NULL.
  std::string_view text(int column, uint32_t row) const;

 private:
  const Reader& reader_;
  const TableInfo& table_;
  Scan scan_;
  std::vector<int> columns_;
  std::vector<const Block*> candidates_;
  std::vector<const ColumnData*> data_;  // by column; null if not wanted
  const Block* block_ = nullptr;
  const Strings* strings_ = nullptr;
  Status status_;
};

/// One row of a loaded block.
struct Row {
  const BlockRows* rows = nullptr;
  uint32_t number = 0;

  int64_t slot(int column) const { return rows->slot(column, number); }
  std::string_view text(int column) const { return rows->text(column, number); }
  double real(int column) const { return std::bit_cast<double>(slot(column)); }
};

/// Whether a row of `events` happened on a stream. Waits are told by either side.
inline bool isOnDevice(const Row& row) {
  auto type = static_cast<EventType>(row.slot(events::type));
  return isDeviceType(type) ||
         (type == EventType::sync && row.slot(events::tid) == kNull && row.slot(events::stream) != kNull);
}

/// Whether arrows of this kind join launches with what they started, as correlations do too. Kineto called them "async"
/// once.
inline bool isLaunchFlow(std::string_view kind) { return kind == "ac2g" || kind == "async"; }

/// Calls visit(Row) → Status for every matching row in file order.
template <typename Visit>
Status forEachRow(const Reader& reader, const TableInfo& table, const Selection& selection, std::vector<int> columns,
                  Visit visit) {
  BlockRows rows(reader, table, selection, std::move(columns));
  for (const Block* block : rows.candidates()) {
    if (!rows.load(*block)) {
      TS_TRY(rows.status());
      continue;
    }
    for (uint32_t r : rows.rows()) TS_TRY(visit(Row{&rows, r}));
  }
  return {};
}

}  // namespace tracesmith::trace
