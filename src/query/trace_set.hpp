// The open traces of one engine, as SQL sees them: tables with their SQL columns, and the strings of every stream as
// DuckDB values.
#pragma once

#include <duckdb.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "query/engine.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::query {

/// One column of a SQL table.
struct SqlColumn {
  std::string name;
  duckdb::LogicalType type;
  int column = -1;        ///< index in the trace's table; -1: the name of the trace
  int launch_field = -1;  ///< which number of a Launch column
  trace::Kind kind = trace::Kind::Str;
};

/// Strings of one stream, in the layout of DuckDB; ids are indexes. Filled once, then constant.
struct Dictionary {
  std::vector<duckdb::string_t> strings;               ///< two more than there are ids: room for NULL
  std::vector<uint32_t> missing;                       ///< ids that have no string
  std::vector<std::unique_ptr<std::string>> repaired;  ///< strings that were not UTF-8

  /// Fields of strings that are launch shapes, filled when first asked for: [field][id], -1 = NULL.
  std::vector<int32_t> launch[trace::kLaunchFields];
  std::once_flag launch_once;

  size_t size() const { return strings.size() - 2; }
};

/// The ids one column uses in one stream, from the zones.
struct IdRange {
  uint32_t low = 0, high = 0;
  bool nulls = false;  ///< some row has no value, or an id without a string
};

class TraceSet {
 public:
  struct Source {
    std::unique_ptr<trace::Reader> reader;
    std::string name;  ///< what the column `trace` says
  };
  struct BlockRef {
    uint32_t source;
    const trace::Block* block;
  };

  Status open(const std::vector<std::string>& files, NeedBytes need = {}, std::vector<std::string> absent = {});

  /// Whether columns must be asked for before they are read.
  bool incomplete() const { return static_cast<bool>(need_); }
  /// Whether a table was left out of the file, so that nobody knows its rows.
  bool isAbsent(const trace::TableInfo& table) const;
  /// The bytes of these columns of a block (numbers in its table) are added to `ranges`; returns how many they are.
  static uint64_t addRanges(const trace::Block& block, const std::vector<int>& columns, std::vector<ByteRange>& ranges);
  /// Throws a DuckDB exception if they cannot be brought.
  void need(const std::vector<ByteRange>& ranges);

  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<BlockRef>& blocks(const trace::TableInfo& table) const;
  const std::vector<SqlColumn>& columns(const trace::TableInfo& table) const;

  /// Throws a DuckDB exception if the strings cannot be loaded.
  Dictionary& dictionary(uint32_t source, uint32_t stream);
  const Dictionary& launchDictionary(uint32_t source, uint32_t stream);
  IdRange idRange(const trace::TableInfo& table, int column, uint32_t source, uint32_t stream);

  /// Lowest and highest id of a string in a stream; low > high: the stream does not have it.
  std::pair<int64_t, int64_t> idsOf(uint32_t source, uint32_t stream, const std::string& value);

  /// Decoding memory that scans of earlier queries left behind, or fresh.
  std::unique_ptr<trace::ColumnData> borrowColumn();
  std::unique_ptr<trace::BlockDecoder> borrowDecoder(uint32_t source);
  void giveBack(std::unique_ptr<trace::ColumnData> column);
  void giveBack(uint32_t source, std::unique_ptr<trace::BlockDecoder> decoder);

  /// Scans add what they did; taken when the statement ends.
  void report(ScanReport scan);
  std::vector<ScanReport> takeReports();

 private:
  std::vector<SqlColumn> makeColumns(const trace::TableInfo& table) const;

  std::vector<Source> sources_;
  std::map<const trace::TableInfo*, std::vector<BlockRef>> blocks_;
  std::map<const trace::TableInfo*, std::vector<SqlColumn>> columns_;
  uint32_t largest_block_ = 0;  // rows
  NeedBytes need_;
  std::vector<std::string> absent_;
  std::mutex needing_;  // one at a time

  std::mutex mutex_;  // guards what follows
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Dictionary>> dictionaries_;
  std::map<std::tuple<const trace::TableInfo*, int, uint32_t, uint32_t>, IdRange> ranges_;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, std::pair<int64_t, int64_t>> ids_;  // looked up so far
  std::vector<ScanReport> reports_;
  std::vector<std::unique_ptr<trace::ColumnData>> columns_to_lend_;
  std::vector<std::pair<uint32_t, std::unique_ptr<trace::BlockDecoder>>> decoders_to_lend_;
};

}  // namespace tracesmith::query
