// Rows of a table in order of time, whatever their order in the file. Memory: the blocks that overlap in time, or only
// the matching rows of those that have few.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "trace/rows.hpp"

namespace tracesmith::trace {

/// A copy of a few rows of a block, for those who need a block's memory for the next.
class CopiedRows final : public RowValues {
 public:
  /// Row i of the copy is rows[i].
  CopiedRows(const BlockRows& from, const std::vector<uint32_t>& rows);

  int64_t slot(int column, uint32_t row) const override {
    return slots_[row * width_ + place_[static_cast<size_t>(column)]];
  }
  std::string_view text(int column, uint32_t row) const override {
    return texts_[row * text_width_ + place_[static_cast<size_t>(column)]];
  }

 private:
  std::vector<size_t> place_;  // of a column among the slots, or among the texts
  size_t width_ = 0, text_width_ = 0;
  std::vector<int64_t> slots_;
  std::vector<std::string_view> texts_;  // strings are the reader's, texts are in heap_
  std::string heap_;
};

/// Rows ordered by start; of those that start together the longest first, so that what encloses comes before what it
/// encloses. Rows without ts are left out. The table must have a column ts; `columns` must have ts and, if the table
/// has it, dur.
class TimeOrder {
 public:
  /// `blocks`: which to read, those that cannot match may be among them. `keep`, if given, leaves rows out.
  TimeOrder(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns,
            std::vector<const Block*> blocks, std::function<bool(const Row&)> keep = {});

  /// Moves to the next row; false at the end or on failure. The row before becomes invalid.
  bool next();
  const Row& row() const { return row_; }
  int64_t ts() const { return ts_; }
  /// 0 for rows without.
  int64_t dur() const { return dur_; }
  const Status& status() const { return status_; }
  size_t blocksRead() const { return next_block_; }

 private:
  struct Entry {
    int64_t ts, dur;
    uint32_t row;
  };
  /// A block in memory and how far it was read.
  struct Open {
    std::unique_ptr<RowValues> rows;
    bool copied = false;
    std::vector<Entry> entries;  // sorted
    size_t at = 0;
  };
  struct Head {
    int64_t ts, dur;
    size_t open;
    bool operator<(const Head& o) const {  // of a max-heap: the first row is the largest
      return ts != o.ts ? ts > o.ts : dur != o.dur ? dur < o.dur : open > o.open;
    }
  };

  bool openNext();
  std::unique_ptr<BlockRows> spare();
  void push(size_t open);

  const Reader& reader_;
  const TableInfo& table_;
  Selection selection_;
  std::vector<int> columns_;
  std::vector<const Block*> blocks_;  // by their first ts
  std::function<bool(const Row&)> keep_;
  int ts_column_, dur_column_;
  size_t next_block_ = 0;
  std::vector<Open> open_;
  std::vector<size_t> free_;                       // of open_, to be used again
  std::vector<std::unique_ptr<BlockRows>> spare_;  // not in use
  std::priority_queue<Head> heads_;
  std::optional<size_t> current_;  // whose row is out
  Row row_;
  int64_t ts_ = 0, dur_ = 0;
  Status status_;
};

}  // namespace tracesmith::trace
