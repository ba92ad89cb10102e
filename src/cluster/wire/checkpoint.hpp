// A checkpoint: the block in a spool segment after which an agent may be killed without losing or repeating a row.
// It holds what the agent knew beyond the rows before it, and until when the data of the node is complete.
// It is of a table no trace has, so that a segment reads as any SBT file.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trace/block_bytes.hpp"

namespace tracesmith::cluster {

/// How many rows some blocks have, by the number of their table: those of traces, and names.
class RowCounts {
 public:
  void add(const trace::BlockHeader& header);
  bool empty() const { return rows_.empty(); }
  const std::map<uint16_t, uint64_t>& tables() const { return rows_; }
  uint64_t of(uint16_t table) const;

  std::string toText() const;
  static RowCounts parse(std::string_view text);
  bool operator==(const RowCounts&) const = default;

 private:
  std::map<uint16_t, uint64_t> rows_;
};

struct Checkpoint {
  int64_t covered_ns = 0;    ///< reference clock: everything before is in the blocks up to here
  int64_t raw_ns = 0;        ///< the same moment by the node's raw clock
  std::string state;         ///< of the Collector
  RowCounts rows = {};       ///< in the segment up to here; empty: nobody counted
  std::string summary = {};  ///< of the AgentSummary; empty: there is none
};

/// The encoded block, not sealed.
std::string encodeCheckpoint(const Checkpoint& checkpoint);
bool isCheckpoint(const trace::BlockBytes& block);
/// Without the state: both times are in the block's directory.
Checkpoint checkpointTimes(const trace::BlockBytes& block);
Result<Checkpoint> decodeCheckpoint(const trace::BlockBytes& block);

}  // namespace tracesmith::cluster
