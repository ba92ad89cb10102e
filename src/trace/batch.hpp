// Rows of one table on their way into a block: columns of dense values, NULLs apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/encoding.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

/// One column under construction. Values are slots (ints, ids, double bits) or text lengths.
class Column {
 public:
  /// Adds `count` rows, `nulls` of them NULL; the slot of each is `stride` slots after the one before it.
  void add(const int64_t* slots, size_t stride, size_t count, size_t nulls);
  void clear();

  std::span<const uint64_t> values() const { return {values_.data(), count_}; }
  /// A byte per row, or empty when no row is NULL.
  std::span<const uint8_t> valid() const { return {valid_.data(), count_ < rows_ ? rows_ : 0}; }

 private:
  // Longer than what is in them: growing by resize() would write every value twice.
  std::vector<uint64_t> values_;
  std::vector<uint8_t> valid_;
  size_t rows_ = 0, count_ = 0;
};

/// Rows of one table. Not thread safe.
class Batch {
 public:
  explicit Batch(const TableInfo& table);

  const TableInfo& table() const { return *table_; }
  size_t rows() const { return rows_; }
  size_t textBytes() const { return text_bytes_; }
  /// Memory its values take, about.
  size_t bytes() const;

  /// Appends one row: a slot per column of the table. `texts` resolves Text slots (see Appender::text).
  void append(const int64_t* slots, const std::string& texts);
  void clear();

  /// The whole block, without sequence, stream and checksum (seal() sets those).
  std::string encode(Encoder& encoder);

 private:
  /// Moves the staged rows into the columns.
  void settle();

  const TableInfo* table_;
  std::vector<Column> columns_;
  std::vector<size_t> texts_;    // indexes of Text columns
  std::vector<int64_t> staged_;  // whole rows, a few hundred: taken apart while they are in the cache
  size_t staged_rows_ = 0;
  std::vector<std::string> heaps_;  // of Text columns
  size_t rows_ = 0, text_bytes_ = 0;
};

/// Writes sequence, stream and checksum into an encoded block.
void seal(std::string& block, uint64_t sequence, uint32_t stream);

/// A Text slot: where the text stands in the buffer of texts.
inline int64_t textSlot(size_t offset, size_t length) { return static_cast<int64_t>(offset << 32 | length); }

}  // namespace tracesmith::trace
