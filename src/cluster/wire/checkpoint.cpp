#include "cluster/wire/checkpoint.hpp"

#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "trace/batch.hpp"
#include "trace/encoding.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr uint16_t kCheckpointTable = 8;  // below the tables of schema.def, above the file's own
constexpr ColumnInfo kColumns[] = {{1, "covered_ns", Kind::Int, ""},
                                   {2, "raw_ns", Kind::Int, ""},
                                   {3, "state", Kind::Text, ""},
                                   {4, "rows", Kind::Text, ""},
                                   {5, "summary", Kind::Text, ""}};
constexpr TableInfo kTable = {kCheckpointTable, "checkpoint", "", kColumns};

}  // namespace

void RowCounts::add(const BlockHeader& header) {
  if (header.table == kStringsTable || findTable(header.table)) rows_[header.table] += header.rows;
}

uint64_t RowCounts::of(uint16_t table) const {
  const auto it = rows_.find(table);
  return it == rows_.end() ? 0 : it->second;
}

std::string RowCounts::toText() const {
  std::string text;
  for (const auto& [table, rows] : rows_) text += std::to_string(table) + ":" + std::to_string(rows) + " ";
  return text;
}

RowCounts RowCounts::parse(std::string_view text) {
  RowCounts counts;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    uint16_t table;
    uint64_t rows;
    const auto [colon, no_table] = std::from_chars(at, end, table);
    if (no_table != std::errc() || colon == end || *colon != ':') return {};
    const auto [space, no_rows] = std::from_chars(colon + 1, end, rows);
    if (no_rows != std::errc() || space == end || *space != ' ') return {};
    counts.rows_[table] = rows;
    at = space + 1;
  }
  return counts;
}

std::string encodeCheckpoint(const Checkpoint& checkpoint) {
  Batch batch(kTable);
  const std::string rows = checkpoint.rows.toText();
  const size_t state = checkpoint.state.size(), counted = state + rows.size();
  const int64_t slots[] = {checkpoint.covered_ns, checkpoint.raw_ns, textSlot(0, state), textSlot(state, rows.size()),
                           textSlot(counted, checkpoint.summary.size())};
  batch.append(slots, checkpoint.state + rows + checkpoint.summary);
  Encoder encoder;
  return batch.encode(encoder);
}

bool isCheckpoint(const BlockBytes& block) { return block.header.table == kCheckpointTable; }

Checkpoint checkpointTimes(const BlockBytes& block) {
  Checkpoint c;
  int64_t high;
  (void)block.zone(1, c.covered_ns, high);
  (void)block.zone(2, c.raw_ns, high);
  return c;
}

Result<Checkpoint> decodeCheckpoint(const BlockBytes& block) {
  Checkpoint c = checkpointTimes(block);
  const std::string_view payload = block.bytes.substr(sizeof(BlockHeader) + block.header.directory_size);
  for (size_t i = 0; i < block.header.columns; ++i) {
    ColumnEntry entry;
    std::memcpy(&entry, block.bytes.data() + sizeof(BlockHeader) + i * sizeof entry, sizeof entry);
    if (entry.column < 3 || entry.column > 5) continue;
    std::string_view in = payload.substr(entry.offset, entry.size);
    std::vector<uint32_t> lengths;
    std::string text;
    Decoder decoder;
    if (entry.encoding != Encoding::kHeap || !decoder.heap(in, entry.values, lengths, text))
      return Status::corrupt("a checkpoint does not decode");
    if (entry.column == 3)
      c.state = std::move(text);
    else if (entry.column == 4)
      c.rows = RowCounts::parse(text);
    else
      c.summary = std::move(text);
  }
  return c;
}

}  // namespace tracesmith::cluster
