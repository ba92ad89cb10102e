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
  int ts = table.find("ts");
  if (ts < 0 || (from == INT64_MIN && to == INT64_MAX)) return true;
  int64_t low, high;
  if (!block.zone(ts, low, high) || low >= to) return false;
  // A row may start before `from` and end in the window; rows without dur are instants.
  int64_t end_low, end_high;
  int ts_end = table.find("ts_end");
  if (ts_end >= 0 && block.zone(ts_end, end_low, end_high)) high = std::max(high, end_high);
  return high >= from;
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

  bool filterTime() {
    int c = table.find("ts");
    if (c < 0 || (selection.from == INT64_MIN && selection.to == INT64_MAX)) return true;
    ColumnData& ts = data[c];
    if (!decoder.decode(*block, c, ts)) return false;
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
    for (int c : wanted)
      if (!decoder.decode(b, c, data[c])) return false;
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

bool isSimulated(const Reader& reader) {
  auto any = [&](const TableInfo& table, int column, std::string_view beginning) {
    Scan scan(reader, table, {}, {column});
    while (scan.next()) {
      Result<const Strings*> strings = reader.strings(scan.block().stream);
      if (!strings) continue;
      for (uint32_t row : scan.rows())
        if ((*strings)->at(slotAt(scan.column(column), Kind::Str, row)).starts_with(beginning)) return true;
    }
    return false;
  };
  return any(tableOf<NodeRow>(), nodes::os, "simulated") || any(tableOf<DeviceRow>(), devices::vendor, "simulated");
}

}  // namespace tracesmith::trace
