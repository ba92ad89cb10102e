// Rows of a table that match a selection, one at a time, with their strings and on the selection's clock: for all
// readers that do not need whole columns. Rows of any table are asked for their columns (Row), those of a known table
// are structs (RowCursor); rows in order of time are in time_order.hpp.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "trace/name_numbers.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::trace {

/// Values of rows, by their number.
class RowValues {
 public:
  virtual ~RowValues() = default;
  /// Value of any column but strings and texts, or kNull.
  virtual int64_t slot(int column, uint32_t row) const = 0;
  /// String, launch shape or text; data() is null for NULL.
  virtual std::string_view text(int column, uint32_t row) const = 0;
};

/// The matching rows of one block at a time. Not thread safe.
class BlockRows final : public RowValues {
 public:
  /// `columns`: indexes of the columns wanted; empty: all.
  BlockRows(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns);

  /// Decodes a block; false if no row of it matches, or it is damaged (then it is in reader.damage()), or on failure.
  bool load(const Block& block);
  /// Why load() failed; ok for damage.
  const Status& status() const { return status_; }

  /// Whether there is a block with matching rows; otherwise there is no block and no rows.
  bool loaded() const { return block_ != nullptr; }
  const Block& block() const { return *block_; }
  std::span<const uint32_t> rows() const { return scan_.rows(); }
  /// The blocks that may have matching rows, in file order.
  const std::vector<const Block*>& candidates() const { return candidates_; }

  int64_t slot(int column, uint32_t row) const override {
    return slotAt(*data_[static_cast<size_t>(column)], table_.columns[static_cast<size_t>(column)].kind, row);
  }
  std::string_view text(int column, uint32_t row) const override;

  /// Values of a column of `count` matching rows from the `first` on, into slots that lie `stride` apart. NULLs are
  /// left as they are. Strings and launch shapes become numbers of `names`, or without it stay ids of the block's
  /// stream.
  void fill(int column, size_t first, size_t count, const NameNumbers* names, int64_t* slots, size_t stride) const;

  const Strings& strings() const { return *strings_; }
  const TableInfo& table() const { return table_; }
  const std::vector<int>& columns() const { return columns_; }

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
  const RowValues* rows = nullptr;
  uint32_t number = 0;

  int64_t slot(int column) const { return rows->slot(column, number); }
  std::string_view text(int column) const { return rows->text(column, number); }
  double real(int column) const { return std::bit_cast<double>(slot(column)); }
};

/// Whether a row of `events` happened on a stream. Waits can be recorded on either side.
inline bool isOnDevice(const Row& row) {
  auto type = static_cast<EventType>(row.slot(events::type));
  return isDeviceType(type) ||
         (type == EventType::sync && row.slot(events::tid) == kNull && row.slot(events::stream) != kNull);
}

/// Whether arrows of this kind join launches with what they started, as correlations do too. Kineto used to call
/// them "async".
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

/// Goes through the matching rows in file order, a few hundred at a time. Not thread safe.
class SlotCursor {
 public:
  /// `names`: what strings are numbered by; it must outlive the cursor.
  SlotCursor(const Reader& reader, const TableInfo& table, std::vector<int> columns, Selection selection,
             const NameNumbers* names);

  /// Moves to the next row; false at the end or on failure. Damaged blocks are left out (reader.damage() has them).
  bool next() { return ++at_ < count_ || refill(); }
  const Status& status() const { return rows_.status(); }
  /// The blocks that will be visited, in order; may be changed before the first next().
  std::vector<const Block*>& blocks() { return blocks_; }

  /// A slot for each column of the table; those not asked for are kNull.
  const int64_t* slots() const { return slots_.data() + at_ * width_; }
  /// String, launch shape or text of a column that was asked for; data() is null for NULL.
  std::string_view text(int column) const { return rows_.text(column, rows_.rows()[first_ + at_]); }
  /// What string slots stand for where there are no `names`.
  const Strings& strings() const { return rows_.strings(); }

 private:
  bool refill();
  BlockRows rows_;
  const NameNumbers* names_;
  size_t width_, next_block_ = 0;
  std::vector<const Block*> blocks_;
  size_t first_ = 0, count_ = 0, at_ = 0;  // of the rows of the block: those in slots_, and the current one of them
  std::vector<int64_t> slots_;
};

/// The same with rows as structs: RowCursor<StepRow>.
template <typename R>
class RowCursor : public SlotCursor {
 public:
  /// `columns`: empty: all.
  explicit RowCursor(const Reader& reader, std::vector<int> columns = {}, Selection selection = {},
                     const NameNumbers* names = nullptr)
      : SlotCursor(reader, tableOf<R>(), std::move(columns), std::move(selection), names) {}
  const R& row() const { return *reinterpret_cast<const R*>(slots()); }
};

/// Calls visit(row, text) for every row of the table; text(column) is a string or text of this row. Strings in the row
/// itself are numbers of `names`.
template <typename R, typename Visit>
Status eachRow(const Reader& reader, const NameNumbers& names, const std::vector<int>& columns, Visit visit) {
  RowCursor<R> rows(reader, columns, {}, &names);
  while (rows.next()) visit(rows.row(), [&](int column) { return rows.text(column); });
  return rows.status();
}

}  // namespace tracesmith::trace
