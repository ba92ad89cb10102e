// Blocks as bytes: checks, describes and relabels them without decoding a column. For whoever moves blocks between
// files and machines (spool, wire, store, merge).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/layout.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// What is wrong with a block header, or nullptr.
const char* headerProblem(const BlockHeader& header);
/// Column slices must lie in the payload; shared validity must point back to an owner.
bool directoryOk(const BlockHeader& header, const ColumnEntry* entries);

/// A block at the front of some bytes.
struct BlockBytes {
  BlockHeader header{};
  std::string_view bytes;  ///< the whole block

  const TableInfo* table() const { return findTable(header.table); }  ///< nullptr: unknown, or the file's own
  /// Zone of the column with this number on disk; false if it has no value here.
  bool zone(uint16_t column, int64_t& low, int64_t& high) const;
  /// From the first start to the last end of its rows; false for tables without time.
  bool times(int64_t& low, int64_t& high) const;
};

/// The block at the front of `bytes`. Header and directory are checked, columns only with `deep`.
/// kExhausted: the bytes end inside the block.
Result<BlockBytes> blockAt(std::string_view bytes, bool deep = false);

/// Checks the header of a file at the front of `bytes`; its size.
Result<size_t> fileHeaderAt(std::string_view bytes);
/// A header for a new file. An id of zeros: a random one; creation time 0: now.
std::string newFileHeader(int64_t created_ns = 0, const std::array<uint8_t, 16>& trace_id = {});

/// The end mark of a file, with this number.
std::string endBlock(uint64_t sequence);

}  // namespace tracesmith::trace
