// Reads SBT v1 traces (docs/format.md): finds the blocks, says which may hold what is asked for, decodes columns.
// A file may still grow, may lack its end, may have damaged blocks: what is good is read, what is not is listed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

struct ColumnEntry;

/// A block found in a file.
struct TRACESMITH_API Block {
  uint64_t offset = 0;
  uint32_t size = 0;
  uint32_t rows = 0;
  uint32_t stream = 0;
  const TableInfo* table = nullptr;
  std::span<const ColumnEntry> columns;  ///< directory, in the reader's memory

  const ColumnEntry* find(int column) const;  ///< by index in the table; nullptr: NULL in every row
  /// Zone of an integer column; false if the column has no value in this block.
  bool zone(int column, int64_t& low, int64_t& high) const;
  /// Bit set of the event types that occur.
  uint64_t types() const;
};

/// Something that could not be read.
struct Damage {
  uint64_t offset = 0, bytes = 0;
  std::string what;
};

/// Strings of one stream of a file.
class TRACESMITH_API Strings {
 public:
  /// Empty view with a null pointer for an id that has no string.
  std::string_view at(int64_t id) const {
    return id >= 0 && static_cast<uint64_t>(id) < views_.size() ? views_[static_cast<size_t>(id)] : std::string_view();
  }
  size_t size() const { return views_.size(); }
  /// Id of a string, or -1. Linear.
  int64_t find(std::string_view s) const;

 private:
  friend class Reader;
  std::vector<std::string_view> views_;
  std::vector<std::unique_ptr<std::string>> heaps_;
  size_t bytes_ = 0;
  size_t next_block_ = 0;  // first strings block not yet loaded
};

/// An open trace. After open() (and between refresh() calls) all methods may be called from several threads.
class TRACESMITH_API Reader {
 public:
  static Result<std::unique_ptr<Reader>> open(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Finds the blocks that were appended since. Pointers to blocks and strings become invalid.
  Status refresh();

  const std::string& path() const;
  uint64_t fileSize() const;
  int64_t createdNs() const;
  std::string traceId() const;  ///< 32 hex digits
  /// True if the writer finished; false: it is still at work, or was killed.
  bool closed() const;
  /// Bytes at the end that are not (yet) a whole block.
  uint64_t unfinishedBytes() const;

  std::span<const Block> blocks() const;                       ///< all blocks of known tables, in file order
  std::vector<const Block*> blocks(const TableInfo& t) const;  ///< of one table
  uint64_t rows(const TableInfo& t) const;

  /// Blocks of tables this version does not know, and names "table.column" of columns it does not know.
  uint64_t unknownBlocks() const;
  const std::vector<std::string>& unknownColumns() const;

  /// Strings of a stream, loaded when first asked for.
  Result<const Strings*> strings(uint32_t stream) const;

  /// What could not be read so far: found at open, or by decoders since.
  std::vector<Damage> damage() const;
  /// Decoders report here what they could not read; each place is kept once.
  void addDamage(uint64_t offset, uint64_t bytes, const std::string& what) const;
  /// Decodes everything once, so that damage() is complete.
  Status verify() const;

  /// "2 damaged blocks were left out (first at offset 4096: …)", or empty.
  std::string damageSummary() const;

 private:
  friend class BlockDecoder;
  struct TRACESMITH_LOCAL Impl;
  explicit Reader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One decoded column. Memory is reused by the next decode.
class ColumnData {
 public:
  /// int64_t for Int, Real (bits) and Sum; uint32_t for Int32 (as int32), Str and Launch; uint8_t for Type.
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(values_.data());
  }
  /// To change what was decoded.
  template <typename T>
  T* values() {
    return reinterpret_cast<T*>(values_.data());
  }
  double realAt(size_t i) const { return std::bit_cast<double>(data<int64_t>()[i]); }
  bool valid(size_t i) const { return !has_nulls_ || valid_[i]; }
  /// A byte per row; only with hasNulls().
  const uint8_t* validity() const { return valid_.data(); }
  bool hasNulls() const { return has_nulls_; }
  bool allNull() const { return all_null_; }
  /// Every row has the value of row 0, the only one stored if the decoder was asked for constants.
  bool constant() const { return constant_; }
  std::string_view textAt(size_t i) const {
    return std::string_view(heap_).substr(ends_[i] - lengths_[i], lengths_[i]);
  }

 private:
  friend class BlockDecoder;
  std::vector<uint64_t> values_;
  std::vector<uint8_t> valid_;
  std::vector<uint32_t> lengths_, ends_;  // of Text: one per row
  std::string heap_;
  bool has_nulls_ = false, all_null_ = false, constant_ = false;
};

/// Decodes columns of blocks. One per thread.
class TRACESMITH_API BlockDecoder {
 public:
  explicit BlockDecoder(const Reader& reader);
  ~BlockDecoder();

  /// Decodes the column with this index in the block's table. Rows that are NULL have the value 0.
  /// With keep_constant, a column of one value stores it once and says constant().
  /// A failure is recorded in the reader's damage().
  Status decode(const Block& block, int column, ColumnData& out, bool keep_constant = false);

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

/// Value of any column as an int64 slot, whatever its width: for code where speed does not matter.
TRACESMITH_API int64_t slotAt(const ColumnData& data, Kind kind, size_t row);

}  // namespace tracesmith::trace
