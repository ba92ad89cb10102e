#include "trace/block_bytes.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "trace/batch.hpp"

namespace tracesmith::trace {

const char* headerProblem(const BlockHeader& h) {
  if (std::memcmp(h.magic, kBlockMagic, sizeof h.magic) != 0) return "no block at this offset";
  if (h.block_size % 8 != 0 || h.block_size > kMaxBlockBytes) return "invalid block size";
  if (h.directory_size != h.columns * sizeof(ColumnEntry)) return "invalid directory size";
  if (h.block_size < sizeof h + h.directory_size) return "block smaller than its directory";
  if (h.rows > (1u << 20)) return "invalid row count";
  return nullptr;
}

bool directoryOk(const BlockHeader& h, const ColumnEntry* entries) {
  uint64_t payload = h.block_size - sizeof h - h.directory_size;
  for (size_t i = 0; i < h.columns; ++i) {
    const ColumnEntry& e = entries[i];
    if (e.offset > payload || e.size > payload - e.offset || e.values > h.rows || e.values == 0) return false;
    if (i > 0 && entries[i - 1].column >= e.column) return false;
    if ((e.flags & kSharedValidity) && (e.validity_index >= i || !(entries[e.validity_index].flags & kOwnValidity)))
      return false;
  }
  return true;
}

namespace {

std::vector<ColumnEntry> entriesOf(const BlockBytes& block) {
  std::vector<ColumnEntry> entries(block.header.columns);
  if (!entries.empty())
    std::memcpy(entries.data(), block.bytes.data() + sizeof(BlockHeader), block.header.directory_size);
  return entries;
}

}  // namespace

bool BlockBytes::zone(uint16_t column, int64_t& low, int64_t& high) const {
  for (const ColumnEntry& e : entriesOf(*this)) {
    if (e.column != column) continue;
    low = e.zone_low;
    high = e.zone_high;
    return true;
  }
  return false;
}

bool BlockBytes::times(int64_t& low, int64_t& high) const {
  const TableInfo* info = table();
  const int ts = info ? info->find("ts") : -1;
  if (ts < 0 || !zone(info->columns[static_cast<size_t>(ts)].id, low, high)) return false;
  int64_t end_low, end_high;
  const int end = info->find("ts_end");
  if (end >= 0 && zone(info->columns[static_cast<size_t>(end)].id, end_low, end_high)) high = std::max(high, end_high);
  return true;
}

Result<BlockBytes> blockAt(std::string_view bytes, bool deep) {
  const Status cut = Status::exhausted("the bytes end inside a block");
  BlockBytes block;
  if (bytes.size() < sizeof(BlockHeader)) return cut;
  std::memcpy(&block.header, bytes.data(), sizeof(BlockHeader));
  const BlockHeader& h = block.header;
  if (const char* problem = headerProblem(h)) return Status::corrupt(problem);
  if (bytes.size() < h.block_size) return cut;
  block.bytes = bytes.substr(0, h.block_size);
  if (h.checksum != blockChecksum(bytes.data(), h.directory_size))
    return Status::corrupt("block header checksum does not match");
  const std::vector<ColumnEntry> entries = entriesOf(block);
  if (!directoryOk(h, entries.data())) return Status::corrupt("invalid column directory");
  if (deep) {
    const std::string_view payload = block.bytes.substr(sizeof h + h.directory_size);
    for (const ColumnEntry& e : entries)
      if (e.encoding != Encoding::kSum &&  // has no bytes
          e.checksum != static_cast<uint32_t>(hash64(payload.data() + e.offset, e.size)))
        return Status::corrupt("checksum of a column does not match");
  }
  return block;
}

Result<size_t> fileHeaderAt(std::string_view bytes) {
  FileHeader header;
  if (bytes.size() < sizeof header) return Status::exhausted("the bytes end inside a file header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kFileMagic, sizeof header.magic) != 0 || header.major != kMajorVersion ||
      header.header_size != sizeof header || header.checksum != hash64(&header, offsetof(FileHeader, checksum)))
    return Status::corrupt("not an SBT v1 file header");
  return sizeof header;
}

std::string newFileHeader(int64_t created_ns, const std::array<uint8_t, 16>& trace_id) {
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof header.magic);
  header.major = kMajorVersion;
  header.header_size = sizeof header;
  header.created_ns = created_ns;
  if (created_ns == 0)
    header.created_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
  std::memcpy(header.trace_id, trace_id.data(), sizeof header.trace_id);
  if (trace_id == std::array<uint8_t, 16>{}) {
    std::random_device random;
    for (uint8_t& b : header.trace_id) b = static_cast<uint8_t>(random());
  }
  header.checksum = hash64(&header, offsetof(FileHeader, checksum));
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

std::string endBlock(uint64_t sequence) {
  static constexpr TableInfo kEnd = {kEndTable, "end", "", {}};
  Encoder encoder;
  std::string block = Batch(kEnd).encode(encoder);
  seal(block, sequence, 0);
  return block;
}

}  // namespace tracesmith::trace
