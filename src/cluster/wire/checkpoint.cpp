#include "cluster/wire/checkpoint.hpp"

#include <cstring>
#include <vector>

#include "trace/batch.hpp"
#include "trace/encoding.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr uint16_t kCheckpointTable = 8;  // below the tables of schema.def, above the file's own
constexpr ColumnInfo kColumns[] = {
    {1, "covered_ns", Kind::Int, ""}, {2, "raw_ns", Kind::Int, ""}, {3, "state", Kind::Text, ""}};
constexpr TableInfo kTable = {kCheckpointTable, "checkpoint", "", kColumns};

}  // namespace

std::string encodeCheckpoint(const Checkpoint& checkpoint) {
  Batch batch(kTable);
  const int64_t slots[] = {checkpoint.covered_ns, checkpoint.raw_ns, textSlot(0, checkpoint.state.size())};
  batch.append(slots, checkpoint.state);
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
    if (entry.column != 3) continue;
    std::string_view in = payload.substr(entry.offset, entry.size);
    std::vector<uint32_t> lengths;
    Decoder decoder;
    if (entry.encoding != Encoding::kHeap || !decoder.heap(in, entry.values, lengths, c.state))
      return Status::corrupt("a checkpoint does not decode");
  }
  return c;
}

}  // namespace tracesmith::cluster
