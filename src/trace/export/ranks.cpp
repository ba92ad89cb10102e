#include "trace/export/ranks.hpp"

#include <algorithm>
#include <set>

#include "trace/layout.hpp"

namespace tracesmith::trace {
namespace {

bool hasRowsWithoutRank(const Block& block, int column) {
  const ColumnEntry* e = block.find(column);
  return !e || e->values < block.rows;
}

}  // namespace

Result<std::vector<int64_t>> ranksOf(const Reader& reader, const std::vector<const TableInfo*>& tables,
                                     const Selection& selection) {
  std::set<int64_t> ranks;
  BlockDecoder decoder(reader);
  ColumnData data;
  for (const TableInfo* table : tables) {
    int column = table->find("rank");
    for (const Block* block : reader.blocks(*table)) {
      if (!selection.mayMatch(*block)) continue;
      if (hasRowsWithoutRank(*block, column)) ranks.insert(kNull);
      int64_t low, high;
      if (!block->zone(column, low, high)) continue;
      ranks.insert(low);
      if (low == high || !decoder.decode(*block, column, data)) continue;
      for (uint32_t r = 0; r < block->rows; ++r) ranks.insert(slotAt(data, Kind::Int32, r));
    }
  }
  if (!selection.ranks.empty())
    std::erase_if(ranks, [&](int64_t r) { return std::ranges::count(selection.ranks, r) == 0; });
  return std::vector<int64_t>(ranks.begin(), ranks.end());
}

TimeOrder rowsOfRank(const Reader& reader, const TableInfo& table, const Selection& selection, int64_t rank,
                     std::vector<int> columns) {
  Selection one = selection;
  std::vector<const Block*> blocks = reader.blocks(table);
  if (rank != kNull) {
    one.ranks = {rank};
    return TimeOrder(reader, table, std::move(one), std::move(columns), std::move(blocks));
  }
  one.ranks.clear();
  int column = table.find("rank");
  std::erase_if(blocks, [&](const Block* b) { return !hasRowsWithoutRank(*b, column); });
  return TimeOrder(reader, table, std::move(one), std::move(columns), std::move(blocks),
                   [column](const Row& row) { return row.slot(column) == kNull; });
}

}  // namespace tracesmith::trace
