// SQL over traces, as the rest of the program sees it: no DuckDB in here. The code behind it is in
// libtracesmith_query.so, which src/cli/libraries.cpp loads when a query is asked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/live.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/scan.hpp"

struct ArrowArrayStream;  // of the Arrow C data interface

namespace tracesmith::query {

/// kArrow: an Arrow IPC stream, of one statement.
/// kRows: "columns":[{name, type}…],"rows":[[…]…], the inside of a JSON object; whole numbers beyond 2^53 are texts.
enum class Format { kTable, kCsv, kJson, kParquet, kRows, kArrow };

/// Takes bytes of a result, in order. A failure ends the query.
using Write = std::function<Status(std::string_view)>;

/// The rows of a table of model/live.def, as they are now. From any thread of a query.
using LiveRows = std::function<Result<std::vector<model::LiveCells>>(const std::string& table)>;

/// A part of a trace's file.
struct ByteRange {
  uint64_t offset = 0, size = 0;
};
/// Brings bytes of the trace into its file. From any thread of a query, one at a time.
using NeedBytes = std::function<Status(const std::vector<ByteRange>&)>;

struct EngineOptions {
  std::string memory;        ///< "2GB"; empty: half of the machine's memory
  int threads = 0;           ///< 0: all cores
  std::string spill = {};    ///< folder for what does not fit in memory; empty: one that the engine makes and removes
  uint64_t spill_bytes = 0;  ///< that may be in it; 0: what the disk has
  LiveRows live = {};        ///< where the tables of the schema `live` come from; empty: there are none
  std::vector<std::string> absent = {};  ///< tables that are not in the file: a statement about them fails
  NeedBytes need = {};  ///< of a file (one) that has all but the columns of blocks: called before they are read
};

struct RunOptions {
  Format format = Format::kTable;
  Write write;             ///< where the result goes; not for Parquet
  std::string parquet;     ///< for Parquet: the file to write
  uint64_t max_rows = 0;   ///< rows a table shows, from its beginning and its end; 0: all
  uint64_t max_width = 0;  ///< columns of characters a table may take; 0: any
  uint64_t limit = 0;      ///< a result ends after so many rows; 0: when it ends
};

/// How one table of one statement was read.
struct ScanReport {
  std::string table;
  uint64_t blocks = 0;   ///< of the table
  uint64_t kept = 0;     ///< that could hold what was asked for, by their zones
  uint64_t decoded = 0;  ///< of which columns were decoded
};

struct RunReport {
  uint64_t rows = 0;       ///< of all results
  bool truncated = false;  ///< there were more than the limit
  double seconds = 0;
  std::vector<ScanReport> scans;
};

/// A database of one or several traces, which it never changes. One thread at a time, except interrupt().
/// No method throws.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Opens the traces; called once. With several, every table has a column `trace` with the file's name.
  virtual Status open(const std::vector<std::string>& files, const EngineOptions& options) = 0;

  /// Runs the statements of `sql` one after another. Statements that would change something are refused.
  virtual Status run(const std::string& sql, const RunOptions& options, RunReport& report) = 0;

  /// Runs one statement; its result comes as it is asked for, in Arrow's buffers. Streams do not disturb each other or
  /// run(), each may be read by a thread of its own, and they may outlive the engine.
  virtual Status stream(const std::string& sql, ArrowArrayStream* out) = 0;

  /// Makes the running query fail, and every stream. From any thread.
  virtual void interrupt() = 0;

  /// Writes the selected rows of one table as Parquet: whole or absent.
  virtual Status exportParquet(const std::string& table, const trace::Selection& selection, const std::string& out) = 0;

  /// What was damaged and left out so far, a sentence for each trace.
  virtual std::vector<std::string> damage() const = 0;
  /// What readers of an answer must know: "trace.sbt lost 12 records: see the table losses", "… is simulated: …".
  virtual std::vector<std::string> notes() const = 0;

  /// Reads statements from the terminal until the user leaves; `run` says what to do with each.
  virtual void prompt(const std::function<void(const std::string& sql)>& statement) = 0;
};

}  // namespace tracesmith::query
