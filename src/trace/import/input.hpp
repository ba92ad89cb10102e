// Where imported bytes come from: a file, a gzip file, memory. Read from front to back, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.hpp"

namespace tracesmith::trace {

/// A sequence of bytes. One thread reads it.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `size` bytes; `got` is 0 only at the end.
  virtual Status read(char* buffer, size_t size, size_t& got) = 0;
  /// Bytes of the underlying file that were taken so far (of the compressed file, for gzip). Any thread.
  virtual uint64_t consumed() const = 0;
};

/// What a file's first bytes say it is.
enum class InputKind { kEmpty, kGzip, kSbt0, kSbt1, kPickle, kSqlite, kInspector, kText };
InputKind kindOf(std::string_view first_bytes);

std::unique_ptr<ByteSource> fileSource(File file);
/// `bytes` must outlive the source. Reads return at most `piece` bytes.
std::unique_ptr<ByteSource> memorySource(std::string_view bytes, size_t piece = SIZE_MAX);
/// Inflates gzip members one after another. Errors name `path` and the offset in the compressed bytes.
std::unique_ptr<ByteSource> gzipSource(std::unique_ptr<ByteSource> compressed, std::string path);
/// Reads `source` ahead in a thread of its own, a few MB at most.
std::unique_ptr<ByteSource> readAhead(std::unique_ptr<ByteSource> source);

}  // namespace tracesmith::trace
