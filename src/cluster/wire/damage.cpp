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
    s.sound = true;
    return s;
  }
  if (Result<BlockBytes> outside = blockAt(bytes); outside) {  // only columns are damaged: its neighbour is known
    s.size = outside->header.block_size;
    s.rows = outside->header.rows;
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

}  // namespace tracesmith::cluster
