// Goes through one block for a scan: decodes what is needed, applies the pushed-down filters, fills DuckDB's vectors.
#pragma once

#include <duckdb.hpp>
#include <duckdb/planner/table_filter.hpp>
#include <duckdb/planner/table_filter_state.hpp>
#include <memory>
#include <vector>

#include "query/trace_set.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::query {

/// A filter DuckDB pushed into the scan.
struct ScanFilter {
  const SqlColumn* column;
  const duckdb::TableFilter* filter;
};

/// What a scan reads: the same for all its threads.
struct ScanPlan {
  std::shared_ptr<TraceSet> traces;
  const trace::TableInfo* table = nullptr;
  uint64_t id = 0;                         ///< of this scan in the process: names its dictionaries
  uint64_t rows = 0;                       ///< of the blocks it visits
  std::vector<const SqlColumn*> output;    ///< nullptr: a column nobody looks at
  std::vector<ScanFilter> filters;
};

/// One per thread.
class BlockCursor {
 public:
  BlockCursor(const ScanPlan& plan, duckdb::ClientContext& context);
  ~BlockCursor();

  /// Decodes the block and applies the filters. False: nothing of it is wanted, or it is damaged (the reader knows).
  bool load(const TraceSet::BlockRef& ref);
  /// True if load() looked at the block's columns.
  bool decoded() const { return decoded_; }
  /// Fills `chunk` with the next rows; no rows at the end of the block.
  void next(duckdb::DataChunk& chunk);

 private:
  struct Slot;
  struct Names;
  struct FilterState;

  Slot& slot(int column);
  bool decode(Slot& slot);
  Names& names(const SqlColumn& column);
  void preparePositions(Slot& slot, const Names& names);
  // Filters: false if the block is damaged; count_ is 0 if no row passed.
  bool apply(FilterState& state);
  bool applyToNames(FilterState& state);
  bool applyToTypes(FilterState& state);
  bool applyToValues(FilterState& state);
  static void ask(FilterState& state, duckdb::Vector& values, size_t n, uint8_t* passes);
  template <typename Keep>
  void keepRows(Keep keep);
  void fill(const SqlColumn& column, duckdb::Vector& out, size_t count);
  template <typename T>
  void fillFlat(const T* values, Slot& slot, duckdb::Vector& out, size_t count);
  void fillSum(Slot& slot, duckdb::Vector& out, size_t count);
  void fillNames(const SqlColumn& column, Slot& slot, duckdb::Vector& out, size_t count);
  void fillText(Slot& slot, duckdb::Vector& out, size_t count);
  void setValidity(Slot& slot, duckdb::Vector& out, size_t count);

  const ScanPlan& plan_;
  std::unique_ptr<trace::BlockDecoder> decoder_;
  uint32_t decoder_source_ = UINT32_MAX;
  std::vector<std::unique_ptr<Slot>> slots_;        // by column of the table
  std::vector<std::unique_ptr<Names>> names_;       // of the stream read last
  std::vector<std::unique_ptr<FilterState>> filters_;

  TraceSet::BlockRef ref_{};
  bool decoded_ = false;
  size_t position_ = 0;
  size_t count_ = 0;           // rows that passed the filters
  bool selected_ = false;      // only some did: rows_ says which
  std::vector<uint32_t> rows_;
};

}  // namespace tracesmith::query
