// Any bytes as a Chrome or Kineto JSON trace, plain or gzip. The first byte chooses the window, so that cuts vary.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trace/import/chrome_import.hpp"

using namespace tracesmith;
using namespace tracesmith::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A copy of exactly this size, so that the address sanitizer sees the first byte past it.
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  WriterOptions writer_options;
  writer_options.block_rows = 16;
  Result<std::unique_ptr<Writer>> writer = Writer::create("/dev/null", writer_options);
  if (!writer) __builtin_trap();
  RowSink::Options sink;
  sink.thread = false;
  ImportShared shared;
  JsonStreamOptions options;
  options.window_bytes = static_cast<size_t>(data[0] % 64) * 7 + 1;
  options.max_value_bytes = 4096;
  std::unique_ptr<ByteSource> source = memorySource(bytes, static_cast<size_t>(data[0] / 64) * 100 + 1);
  if (kindOf(bytes) == InputKind::kGzip) source = gzipSource(std::move(source), "fuzz");
  ChromeImport rows(**writer, sink, shared, kNull, "");
  JsonStream stream(*source, "fuzz", options);
  Status read = stream.run(rows);
  if (read.ok() && !rows.finish()) __builtin_trap();  // what was read can be written
  return 0;
}
