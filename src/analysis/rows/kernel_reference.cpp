#include "analysis/rows/kernel_reference.hpp"

#include <algorithm>

namespace tracesmith::analysis {

using namespace trace;

KernelReference KernelReference::sample(const Reader& reader, const Names& names) {
  constexpr size_t kBlocks = 96;
  KernelReference out;
  std::vector<const Block*> blocks;
  for (const Block* b : reader.blocks(tableOf<EventRow>()))
    if (b->types() & 1ull << static_cast<int>(EventType::kernel)) blocks.push_back(b);
  BlockDecoder decoder(reader);
  ColumnData type, name, dur, launch, rank, pid;
  int64_t first = kNull;
  const size_t take = std::min(kBlocks, blocks.size());
  for (size_t i = 0; i < take; ++i) {
    const Block& block = *blocks[i * blocks.size() / take];
    if (!decoder.decode(block, events::type, type) || !decoder.decode(block, events::name, name) ||
        !decoder.decode(block, events::dur, dur) || !decoder.decode(block, events::launch, launch) ||
        !decoder.decode(block, events::rank, rank) || !decoder.decode(block, events::pid, pid))
      continue;
    const std::vector<uint32_t>& numbers = names.stream(block.stream);
    auto number = [&](const ColumnData& data, uint32_t r) {
      const uint32_t id = data.data<uint32_t>()[r];
      return data.valid(r) && id < numbers.size() ? numbers[id] : kNoName;
    };
    for (uint32_t r = 0; r < block.rows; ++r) {
      if (type.data<uint8_t>()[r] != static_cast<uint8_t>(EventType::kernel) || !dur.valid(r)) continue;
      const int64_t process = rank.valid(r)  ? rank.data<int32_t>()[r]
                              : pid.valid(r) ? -1 - static_cast<int64_t>(pid.data<int32_t>()[r])
                                             : INT64_MIN;
      Mean& m = out.means_[key(number(name, r), number(launch, r))];
      if (m.count == 0) m.process = process;
      m.several |= m.process != process;
      if (first == kNull) first = process;
      out.alone_ &= first == process;
      m.mean += (static_cast<double>(dur.data<int64_t>()[r]) - m.mean) / ++m.count;
    }
  }
  return out;
}

}  // namespace tracesmith::analysis
