// Adds columns to a block that is already encoded but not yet in a file: what is known only at the end of an input,
// such as its rank. Blocks come from Batch::encode of this process, so they are trusted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/layout.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

class Encoder;
class Decoder;

class BlockEditor {
 public:
  BlockEditor(const TableInfo& table, std::string block);

  uint32_t rows() const { return header_.rows; }
  bool has(int column) const { return entryOf(column) != nullptr; }
  /// Values of an integer column, one a row; kNull where there is none.
  std::vector<int64_t> read(Decoder& decoder, int column) const;

  /// Gives every row the same value. Does nothing where the block has the column already.
  void addConstant(int column, int64_t value);
  /// Adds an integer column, one value a row, kNull where there is none.
  void add(Encoder& encoder, int column, const std::vector<int64_t>& values);

  /// Adds `ns` to every value of an integer column. False, and nothing changes, where that gives no time.
  [[nodiscard]] bool shift(int column, int64_t ns);

  /// The block with its new columns.
  std::string take();

 private:
  const ColumnEntry* entryOf(int column) const;
  void insert(ColumnEntry entry, std::string_view bytes);

  const TableInfo* table_;
  BlockHeader header_;
  std::vector<ColumnEntry> entries_;
  std::string payload_;
};

}  // namespace tracesmith::trace
