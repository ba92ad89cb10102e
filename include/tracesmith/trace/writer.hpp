// Writes SBT v1 traces (docs/format.md). Many threads append to one file; memory is bounded; every finished block
// survives the death of the writer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::trace {

struct WriterOptions {
  uint32_t block_rows = 32768;       ///< rows of a full block
  size_t memory_bytes = 128u << 20;  ///< rows buffered by all appenders together
  int zstd_level = 1;
  bool whole_or_absent = false;  ///< write beside the final name, rename on close; otherwise readable while written
  std::array<uint8_t, 16> trace_id{};  ///< all zero: a random one
  int64_t created_ns = 0;              ///< 0: now
};

class Appender;

/// Takes the bytes of a trace: the file's header first, then one whole block a call. Calls do not overlap.
using TraceSink = std::function<Status(std::string_view bytes)>;

/// One trace being written. Thread safe.
class TRACESMITH_API Writer {
 public:
  static Result<std::unique_ptr<Writer>> create(const std::string& path, const WriterOptions& options = {});
  /// A trace that goes elsewhere than into a file: into memory, to another process.
  static Result<std::unique_ptr<Writer>> create(TraceSink sink, const WriterOptions& options = {});
  /// Without close() the file is left as it is: readable, but marked as not closed (or removed, with whole_or_absent).
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Id of a string for Str slots. Ids stay valid as long as the writer.
  int64_t string(std::string_view s);
  /// Id of a launch shape for Launch slots.
  int64_t launch(const LaunchShape& shape) { return string(shape.text()); }

  /// An appender for one thread. It must not outlive the writer.
  std::unique_ptr<Appender> appender();

  /// Writes one encoded block (of Appender::takeBlocks).
  Status commit(std::string block);
  /// Writes the strings that no block has brought along yet: bounds their memory where blocks are held back.
  Status flushStrings();
  /// Everything committed so far survives a power cut when it returns, if it went into a file.
  Status sync();
  /// Writes the end mark. All appenders must be flushed or gone.
  Status close();

  uint64_t bytesWritten() const;
  const WriterOptions& options() const;

 private:
  friend class Appender;
  struct TRACESMITH_LOCAL Impl;
  explicit Writer(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Writer>> begin(std::unique_ptr<Impl> impl, const WriterOptions& options);
  std::unique_ptr<Impl> impl_;
};

/// Buffers the rows of one thread and writes them as blocks. Not thread safe.
/// Host and device rows of `events` go to different blocks. Flushes itself when full, and in its destructor
/// (where an error can no longer be told: call flush()).
class TRACESMITH_API Appender {
 public:
  ~Appender();
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;

  /// Slot of a text for the row appended next.
  int64_t text(std::string_view s);

  template <typename Row>
  Status append(const Row& row) {
    return appendSlots(tableOf<Row>(), reinterpret_cast<const int64_t*>(&row));
  }
  Status appendSlots(const TableInfo& table, const int64_t* slots);

  /// Writes all buffered rows as blocks.
  Status flush();

  /// From now on blocks are kept instead of written; takeBlocks() hands them over, for callers that need an order.
  void keepBlocks() { keep_ = true; }
  Result<std::vector<std::string>> takeBlocks();

 private:
  friend class Writer;
  struct TRACESMITH_LOCAL Impl;
  explicit Appender(Writer::Impl& writer);
  std::unique_ptr<Impl> impl_;
  bool keep_ = false;
};

}  // namespace tracesmith::trace
