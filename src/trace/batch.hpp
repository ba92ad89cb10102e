// Rows of one table on their way into a block: columns of dense values, NULLs apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/encoding.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

/// One column under construction. Values are slots (ints, ids, double bits) or text lengths.
class Column {
 public:
  /// Gives `row` its value; rows skipped since the last call are NULL. Rows come in ascending order.
  void set(size_t row, int64_t value) {
    if (rows_ < row) pad(row);
    values_.push_back(static_cast<uint64_t>(value));
    if (!valid_.empty()) valid_.push_back(1);
    rows_ = row + 1;
  }
  void pad(size_t rows);
  void clear();

  const std::vector<uint64_t>& values() const { return values_; }
  /// A byte per row, or empty when no row is NULL.
  const std::vector<uint8_t>& valid() const { return valid_; }

 private:
  std::vector<uint64_t> values_;
  std::vector<uint8_t> valid_;
  size_t rows_ = 0;
};

/// Rows of one table. Not thread safe.
class Batch {
 public:
  explicit Batch(const TableInfo& table) : table_(&table), columns_(table.columns.size()), heaps_(table.columns.size()) {}

  const TableInfo& table() const { return *table_; }
  size_t rows() const { return rows_; }
  size_t textBytes() const { return text_bytes_; }
  /// Memory its values take, about.
  size_t bytes() const;

  /// Appends one row: a slot per column of the table. `texts` resolves Text slots (see Appender::text).
  void append(const int64_t* slots, const std::string& texts);
  void clear();

  Column& column(size_t i) { return columns_[i]; }
  /// For bulk fillers that set columns themselves: declares the number of rows.
  void setRows(size_t rows) { rows_ = rows; }

  /// The whole block, without sequence, stream and checksum (seal() sets those). Pads columns first.
  std::string encode(Encoder& encoder);

 private:
  const TableInfo* table_;
  std::vector<Column> columns_;
  std::vector<std::string> heaps_;  // of Text columns
  size_t rows_ = 0, text_bytes_ = 0;
};

/// Writes sequence, stream and checksum into an encoded block.
void seal(std::string& block, uint64_t sequence, uint32_t stream);

/// A Text slot: where the text stands in the buffer of texts.
inline int64_t textSlot(size_t offset, size_t length) { return static_cast<int64_t>(offset << 32 | length); }

}  // namespace tracesmith::trace
