#include "tracesmith/trace/scan.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace tracesmith::trace {
namespace {

bool zoneHasAny(const Block& block, const char* name, const std::vector<int64_t>& wanted) {
  int column = block.table->find(name);
  if (wanted.empty() || column < 0) return true;
  int64_t low, high;
  if (!block.zone(column, low, high)) return false;
  return std::any_of(wanted.begin(), wanted.end(), [&](int64_t v) { return v >= low && v <= high; });
}

}  // namespace

bool Selection::mayMatch(const Block& block) const {
  const TableInfo& table = *block.table;
  if (types != ~0ull && &table == &tableOf<EventRow>() && (block.types() & types) == 0) return false;
  if (!zoneHasAny(block, "rank", ranks) || !zoneHasAny(block, "device", devices)) return false;
  if (table.find("ts") < 0 || (from == INT64_MIN && to == INT64_MAX)) return true;
  // A row may start before `from` and end in the window; rows without dur are instants.
  int64_t low, high;
  return blockTimes(block, clock, low, high) && low < to && high >= from;
}

bool blockTimes(const Block& block, const CommonClock* clock, int64_t& low, int64_t& high) {
  const int ts = block.table->find("ts"), ts_end = block.table->find("ts_end");
  if (ts < 0 || !block.zone(ts, low, high)) return false;
  int64_t end_low, end_high;
  if (ts_end >= 0 && block.zone(ts_end, end_low, end_high)) high = std::max(high, end_high);
  if (clock) clock->widen(block, low, high);
  return true;
}

void tableTimes(const Reader& reader, const TableInfo& table, const CommonClock* clock, int64_t& low, int64_t& high) {
  int64_t first, last;
  low = INT64_MAX, high = INT64_MIN;
  for (const Block* b : reader.blocks(table))
    if (blockTimes(*b, clock, first, last)) low = std::min(low, first), high = std::max(high, last);
  if (low > high) low = high = 0;
}

struct Scan::Impl {
  const Reader& reader;
  const TableInfo& table;
  Selection selection;
  std::vector<int> wanted;
  BlockDecoder decoder;
  std::vector<const Block*> blocks;
  size_t next = 0;
  const Block* block = nullptr;
  std::vector<uint32_t> rows;
  std::map<int, ColumnData> data;  // wanted columns and those of the conditions

  Impl(const Reader& r, const TableInfo& t, Selection s, std::vector<int> w)
      : reader(r), table(t), selection(std::move(s)), wanted(std::move(w)), decoder(r) {
    for (const Block* b : reader.blocks(table))
      if (selection.mayMatch(*b)) blocks.push_back(b);
  }

  template <typename Keep>
  void filter(Keep keep) {
    std::erase_if(rows, [&](uint32_t r) { return !keep(r); });
  }

  bool filterIn(const char* name, const std::vector<int64_t>& values) {
    int c = table.find(name);
    if (values.empty() || c < 0) return true;
    ColumnData& column = data[c];
    if (!decoder.decode(*block, c, column)) return false;
    Kind kind = table.columns[static_cast<size_t>(c)].kind;
    filter(
        [&](uint32_t r) { return std::find(values.begin(), values.end(), slotAt(column, kind, r)) != values.end(); });
    return true;
  }

  bool whole() const { return selection.from == INT64_MIN && selection.to == INT64_MAX; }

  /// A column with times, on the clock if there is one.
  bool decodeTime(int c, ColumnData& out) {
    if (!decoder.decode(*block, c, out)) return false;
    const int n = table.find("node");
    if (!selection.clock || n < 0) return true;
    ColumnData& node = data[n];
    if (!decoder.decode(*block, n, node)) return false;
    auto* t = out.values<int64_t>();
    if (c == table.find("ts_end")) {  // a duration after the start, whatever the clock did in between
      ColumnData start;
      const int ts = table.find("ts");
      if (!decoder.decode(*block, ts, start)) return false;
      const int64_t* from = start.data<int64_t>();
      for (uint32_t r : rows)
        if (out.valid(r)) t[r] += selection.clock->toReference(*block, slotAt(node, Kind::Str, r), from[r]) - from[r];
      return true;
    }
    for (uint32_t r : rows)
      if (out.valid(r)) t[r] = selection.clock->toReference(*block, slotAt(node, Kind::Str, r), t[r]);
    return true;
  }

  bool filterTime() {
    int c = table.find("ts");
    if (c < 0 || whole()) return true;
    ColumnData& ts = data[c];
    if (!decodeTime(c, ts)) return false;
    const int64_t* t = ts.data<int64_t>();
    filter([&](uint32_t r) { return ts.valid(r) && t[r] < selection.to; });
    int d = table.find("dur");
    if (d < 0) {
      filter([&](uint32_t r) { return t[r] >= selection.from; });
      return true;
    }
    ColumnData& dur = data[d];
    if (!decoder.decode(*block, d, dur)) return false;
    const int64_t* length = dur.data<int64_t>();  // 0 where NULL
    filter([&](uint32_t r) { return t[r] >= selection.from || length[r] >= selection.from - t[r]; });
    return true;
  }

  bool load(const Block& b) {
    block = &b;
    rows.resize(b.rows);
    std::iota(rows.begin(), rows.end(), 0u);
    if (!filterIn("rank", selection.ranks) || !filterIn("device", selection.devices) || !filterTime()) return false;
    if (selection.types != ~0ull && &table == &tableOf<EventRow>()) {
      ColumnData& type = data[events::type];
      if (!decoder.decode(b, events::type, type)) return false;
      filter([&](uint32_t r) { return selection.types >> type.data<uint8_t>()[r] & 1; });
    }
    if (rows.empty()) return false;
    const int ts = table.find("ts"), ts_end = table.find("ts_end");
    for (int c : wanted) {
      const bool time = c == ts || c == ts_end;
      if (c == ts && !whole()) continue;  // there already
      if (time ? !decodeTime(c, data[c]) : !decoder.decode(b, c, data[c])) return false;
    }
    return true;
  }
};

Scan::Scan(const Reader& reader, const TableInfo& table, Selection selection, std::vector<int> columns)
    : impl_(std::make_unique<Impl>(reader, table, std::move(selection), std::move(columns))) {}
Scan::~Scan() = default;

bool Scan::next() {
  while (impl_->next < impl_->blocks.size())
    if (impl_->load(*impl_->blocks[impl_->next++])) return true;
  return false;
}

const Block& Scan::block() const { return *impl_->block; }
std::span<const uint32_t> Scan::rows() const { return impl_->rows; }
const ColumnData& Scan::column(int index) const { return impl_->data.at(index); }
std::vector<const Block*>& Scan::blocks() { return impl_->blocks; }

}  // namespace tracesmith::trace
