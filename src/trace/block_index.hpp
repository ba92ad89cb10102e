// Walks the blocks of a file and remembers where they are: the part of Reader that is first to see damaged and hostile
// bytes.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "trace/layout.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::trace {

/// Everything found while walking from the file header to the end.
struct BlockIndex {
  FileHeader header{};
  uint64_t file_size = 0;
  uint64_t next_offset = 0;  // where walking goes on at the next refresh
  uint64_t next_sequence = 0;
  bool closed = false;
  uint64_t unfinished_bytes = 0;
  uint64_t unknown_blocks = 0;
  std::vector<Block> blocks;  // known tables
  std::vector<Block> strings, schemas;
  std::deque<std::vector<ColumnEntry>> directories;  // what Block::columns points to
  std::vector<Damage> damage;

  Status readHeader(const File& file);
  /// Walks from next_offset to the end of the file.
  Status walk(const File& file);

 private:
  void add(const BlockHeader& header, uint64_t offset, const char* directory);
  Status findNext(const File& file, uint64_t from, uint64_t& found) const;
};

}  // namespace tracesmith::trace
