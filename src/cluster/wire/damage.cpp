#include "cluster/wire/damage.hpp"

#include <algorithm>
#include <cstring>

#include "trace/batch.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

constexpr uint16_t kDamagedTable = 9;  // beside that of checkpoints

}  // namespace

Stretch stretchAt(std::string_view bytes, bool deep) {
  Stretch s;
  if (bytes.empty()) return s;
  Result<BlockBytes> block = blockAt(bytes, deep);
  if (block) {
    s.block = *block;
    s.size = block->header.block_size;
    s.sequence = block->header.sequence;
    s.sound = true;
    return s;
  }
  if (Result<BlockBytes> outside = blockAt(bytes); outside) {  // only columns are damaged: its neighbour is known
    s.size = outside->header.block_size;
    s.sequence = outside->header.sequence;
    const uint16_t table = outside->header.table;
    s.empty = table != kStringsTable && !findTable(table);
    if (!s.empty) s.rows = outside->header.rows;
    return s;
  }
  for (size_t at = sizeof(BlockHeader); at + sizeof(BlockHeader) <= bytes.size(); at += 8) {
    if (std::memcmp(bytes.data() + at, kBlockMagic, sizeof kBlockMagic) != 0) continue;
    if (!blockAt(bytes.substr(at))) continue;
    s.size = at;
    return s;
  }
  s.size = bytes.size();
  s.open = true;
  return s;
}

std::string damagedBlock(std::string_view bytes, uint64_t rows) {
  std::string block(bytes);
  BlockHeader h{};
  std::memcpy(h.magic, kBlockMagic, sizeof h.magic);
  h.block_size = static_cast<uint32_t>(block.size());
  h.table = kDamagedTable;
  h.rows = static_cast<uint32_t>(std::min<uint64_t>(rows, 1u << 20));
  std::memcpy(block.data(), &h, sizeof h);
  seal(block, 0, 0);
  return block;
}

bool isDamaged(const BlockBytes& block) { return block.header.table == kDamagedTable; }

void DamageCount::damaged(size_t offset, size_t bytes, uint64_t rows) { places_.push_back({offset, bytes, rows}); }

void DamageCount::damagedCheckpoint(uint64_t sequence) {
  last_ = sequence;
  before_ = places_.size();
}

std::vector<DamageCount::Lost> DamageCount::sound(const BlockBytes& block) {
  const BlockHeader& h = block.header;
  read_.add(h);
  // Between the last checkpoint and the end mark there is the checkpoint once more.
  if (h.table == kEndTable && last_ && h.sequence == *last_ + 2) places_.resize(before_);
  if (!isCheckpoint(block)) return {};
  const Result<Checkpoint> checkpoint = decodeCheckpoint(block);
  if (!checkpoint || checkpoint->rows.empty()) return end();
  last_ = h.sequence;
  before_ = 0;
  if (places_.empty()) return {};
  size_t bytes = 0;
  for (const Place& p : places_) bytes += p.bytes;
  const std::string where = std::to_string(bytes) + " bytes at offset " + std::to_string(places_[0].offset) +
                            (places_.size() > 1 ? " and later" : "") + " cannot be read: ";
  places_.clear();
  std::vector<Lost> all;
  for (const auto& [table, rows] : checkpoint->rows.tables()) {
    if (rows <= read_.of(table)) continue;
    const TableInfo* info = findTable(table);
    all.push_back({rows - read_.of(table), where + (info ? std::string("rows of ") + info->name : "names")});
  }
  read_ = checkpoint->rows;
  return all;
}

std::vector<DamageCount::Lost> DamageCount::end() {
  std::vector<Lost> all;
  for (const Place& p : places_)
    all.push_back({p.rows > 0 ? std::optional(p.rows) : std::nullopt,
                   std::to_string(p.bytes) + " bytes at offset " + std::to_string(p.offset) + " cannot be read"});
  places_.clear();
  before_ = 0;
  return all;
}

}  // namespace tracesmith::cluster
