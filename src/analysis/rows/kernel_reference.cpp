#include "analysis/rows/kernel_reference.hpp"

#include "trace/rows.hpp"

#include <algorithm>

namespace tracesmith::analysis {

using namespace trace;

KernelReference KernelReference::sample(const Reader& reader, const trace::NameNumbers& names,
                                        const DeviceModels& models) {
  constexpr size_t kBlocks = 96;
  KernelReference out;
  Selection kernels;
  kernels.types = 1ull << static_cast<int>(EventType::kernel);
  RowCursor<EventRow> rows(reader, {events::name, events::dur, events::launch, events::rank, events::pid},
                           std::move(kernels), &names);
  std::vector<const Block*>& blocks = rows.blocks();
  const size_t all = blocks.size(), take = std::min(kBlocks, all);
  for (size_t i = 0; i < take; ++i) blocks[i] = blocks[i * all / take];
  blocks.resize(take);
  out.models_.resize(models.names().size());
  while (rows.next()) {
    const EventRow& row = rows.row();
    if (row.dur == kNull) continue;
    auto number = [](int64_t slot) { return slot == kNull ? trace::kNoName : static_cast<uint32_t>(slot); };
    const int64_t process = row.rank != kNull ? row.rank : row.pid != kNull ? -1 - row.pid : INT64_MIN;
    Model& model = out.models_[models.of(process)];
    Mean& m = model.means[key(number(row.name), number(row.launch))];
    if (m.count == 0) m.process = process;
    m.several |= m.process != process;
    if (model.first == kNull) model.first = process;
    model.alone &= model.first == process;
    m.mean += (static_cast<double>(row.dur) - m.mean) / ++m.count;
  }
  return out;
}

}  // namespace tracesmith::analysis
