// The SBT v1 reader on any bytes: opens, decodes every column and string, scans with a selection.
// Checksums would keep a fuzzer out, so it gets them right where the layout allows: after the input's first byte says
// so.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "trace/layout.hpp"
#include "tracesmith/trace/scan.hpp"

using namespace tracesmith::trace;

namespace {

/// Makes the checksums of the file header and of every block that can be walked right.
void mendChecksums(std::string& file) {
  if (file.size() < sizeof(FileHeader)) return;
  FileHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.checksum = hash64(&header, offsetof(FileHeader, checksum));
  std::memcpy(file.data(), &header, sizeof header);
  for (size_t at = sizeof header; at + sizeof(BlockHeader) <= file.size();) {
    BlockHeader h;
    std::memcpy(&h, file.data() + at, sizeof h);
    const size_t head = sizeof h + h.columns * sizeof(ColumnEntry);
    if (h.block_size < head || h.block_size > file.size() - at) return;
    for (size_t c = 0; c < h.columns; ++c) {
      ColumnEntry e;
      char* entry = file.data() + at + sizeof h + c * sizeof e;
      std::memcpy(&e, entry, sizeof e);
      if (e.offset > h.block_size - head || e.size > h.block_size - head - e.offset) continue;
      e.checksum = static_cast<uint32_t>(hash64(file.data() + at + head + e.offset, e.size));
      std::memcpy(entry, &e, sizeof e);
    }
    h.directory_size = static_cast<uint32_t>(h.columns * sizeof(ColumnEntry));
    std::memcpy(file.data() + at, &h, sizeof h);
    h.checksum = blockChecksum(file.data() + at, h.directory_size);
    std::memcpy(file.data() + at, &h, sizeof h);
    at += h.block_size;
  }
}

const std::string& scratchPath() {
  static const std::string path = [] {
    const char* dir = std::getenv("TMPDIR");
    return std::string(dir ? dir : "/tmp") + "/sbt_fuzz." + std::to_string(::getpid());
  }();
  static const bool cleanup = std::atexit([] { ::unlink(scratchPath().c_str()); }) == 0;
  (void)cleanup;
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) mendChecksums(file);
  FILE* f = std::fopen(scratchPath().c_str(), "wb");
  if (!f) return 0;
  std::fwrite(file.data(), 1, file.size(), f);
  std::fclose(f);
  auto reader = Reader::open(scratchPath());
  if (!reader) return 0;
  (void)(*reader)->verify();
  for (const Block& block : (*reader)->blocks()) {
    BlockDecoder decoder(**reader);
    ColumnData column;
    for (size_t c = 0; c < block.table->columns.size(); ++c)
      if (decoder.decode(block, static_cast<int>(c), column, true) && block.rows > 0) {
        Kind kind = block.table->columns[c].kind;
        if (kind == Kind::Text)
          for (size_t i = 0; i < block.rows; ++i) (void)column.textAt(i);
        else
          (void)slotAt(column, kind, 0);
      }
  }
  Selection selection;
  selection.from = 1500;
  selection.to = 3000;
  selection.ranks = {0, 3};
  selection.types = 9;
  Scan scan(**reader, tableOf<EventRow>(), selection, {events::name, events::args, events::ts_end});
  while (scan.next()) (void)scan.rows();
  (void)(*reader)->damageSummary();
  return 0;
}
