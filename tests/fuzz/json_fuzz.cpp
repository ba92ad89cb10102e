// Any bytes as a Chrome or Kineto JSON trace, plain or gzip. The first byte chooses the window, so that cuts vary.
// What is imported must read back without damage, and its args must be JSON.
#include <simdjson.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "model/kernel_collective.hpp"
#include "trace/import/chrome_import.hpp"
#include "tracesmith/trace/reader.hpp"

using namespace tracesmith;
using namespace tracesmith::trace;

namespace {

void check(bool good) {
  if (!good) __builtin_trap();
}

/// Numbers beyond 64 bits and lone surrogates are JSON that simdjson does not take.
bool isJson(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  check(parser.allocate(text.size() + 64, 4096) == simdjson::SUCCESS);
  simdjson::error_code error = parser.parse(simdjson::padded_string(text)).get(root);
  return error == simdjson::SUCCESS || error == simdjson::STRING_ERROR || error == simdjson::NUMBER_ERROR;
}

void readBack(const std::string& path) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(path);
  check(reader.ok() && (*reader)->closed() && (*reader)->verify().ok() && (*reader)->damage().empty());
  BlockDecoder decoder(**reader);
  ColumnData data;
  for (const TableInfo& table : tables()) {
    int column = table.find("args");
    if (column < 0) continue;
    for (const Block* block : (*reader)->blocks(table)) {
      check(decoder.decode(*block, column, data).ok());
      for (size_t i = 0; i < block->rows; ++i) check(!data.valid(i) || isJson(data.textAt(i)));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = "/proc/self/fd/" + std::to_string(::memfd_create("json", 0));
  if (size == 0) return 0;
  // A copy of exactly this size, so that the address sanitizer sees the first byte past it.
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  WriterOptions writer_options;
  writer_options.block_rows = 16;
  Result<std::unique_ptr<Writer>> writer = Writer::create(path, writer_options);
  check(writer.ok());
  RowSink::Options sink;
  sink.thread = false;
  ImportShared shared;
  shared.collective_of = model::collectiveOfEvent;
  JsonStreamOptions options;
  options.window_bytes = static_cast<size_t>(data[0] % 64) * 7 + 1;
  options.max_value_bytes = 4096;
  std::unique_ptr<ByteSource> source = memorySource(bytes, static_cast<size_t>(data[0] / 64) * 100 + 1);
  if (kindOf(bytes) == InputKind::kGzip) source = gzipSource(std::move(source), "fuzz");
  ChromeImport rows(**writer, sink, shared, kNull, "");
  JsonStream stream(*source, "fuzz", options);
  if (!stream.run(rows)) return 0;
  check(rows.finish().ok() && (*writer)->close().ok());
  readBack(path);
  return 0;
}
