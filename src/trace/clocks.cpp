#include "trace/clocks.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <tuple>

#include "trace/rows.hpp"

namespace tracesmith::trace {

namespace {

constexpr int64_t kReachNs = 15'000'000'000;  // agents write models at least every 10 s

}  // namespace

void ClockTable::add(const ClockModel& model) {
  auto at = std::upper_bound(models_.begin(), models_.end(), model.at_ns,
                             [](int64_t t, const ClockModel& m) { return t < m.at_ns; });
  models_.insert(at, model);
}

void ClockTable::dropUnbounded() {
  const bool any = std::any_of(models_.begin(), models_.end(), [](const ClockModel& m) { return m.valid(); });
  if (any) std::erase_if(models_, [](const ClockModel& m) { return !m.valid(); });
}

void ClockTable::preferLater() {
  for (size_t i = 0; i + 1 < models_.size(); ++i) {  // the later one is still as it was
    ClockModel& m = models_[i];
    const ClockModel& next = models_[i + 1];
    if (!m.valid() || !next.valid() || next.at_ns - m.at_ns > kReachNs) continue;
    const int64_t offset = next.toReference(m.at_ns) - m.at_ns;
    if (std::abs(offset - m.offset_ns) > 2 * (m.bound_ns + next.bound_ns)) continue;  // the clock was set in between
    m = {m.at_ns, offset, next.drift_ppm, next.bound_ns, next.method};
  }
}

const ClockModel* ClockTable::inForce(int64_t raw) const {
  if (models_.empty()) return nullptr;
  auto after =
      std::upper_bound(models_.begin(), models_.end(), raw, [](int64_t t, const ClockModel& m) { return t < m.at_ns; });
  return after == models_.begin() ? &*after : &*std::prev(after);
}

int64_t ClockTable::toReference(int64_t raw) const {
  const ClockModel* m = inForce(raw);
  return m ? m->toReference(raw) : raw;
}

void ClockTable::widen(int64_t& low, int64_t& high) const {
  int64_t first = toReference(low), last = toReference(high);
  auto m = std::upper_bound(models_.begin(), models_.end(), low,
                            [](int64_t t, const ClockModel& model) { return t < model.at_ns; });
  for (; m != models_.end() && m->at_ns <= high; ++m) {
    first = std::min(first, m->toReference(m->at_ns));
    if (m != models_.begin()) last = std::max(last, std::prev(m)->toReference(m->at_ns));
  }
  low = first;
  high = last;
}

int64_t ClockTable::toRaw(int64_t reference) const {
  // Models differ by microseconds from their neighbours: the first one that takes the time into its own reach.
  for (size_t i = models_.size(); i-- > 0;)
    if (const int64_t raw = models_[i].toRaw(reference); raw >= models_[i].at_ns || i == 0) return raw;
  return reference;
}

int64_t ClockTable::boundAt(int64_t raw) const {
  const ClockModel* m = inForce(raw);
  return m ? m->bound_ns : INT64_MAX;
}

int64_t ClockTable::worstBound() const {
  int64_t worst = models_.empty() ? INT64_MAX : 0;
  for (const ClockModel& m : models_) worst = std::max(worst, m.bound_ns);
  return worst;
}

void RowClock::seek(int64_t raw) {
  auto next =
      std::upper_bound(models_.begin(), models_.end(), raw, [](int64_t t, const ClockModel& m) { return t < m.at_ns; });
  model_ = next == models_.begin() ? &*next : &*std::prev(next);
  low_ = next == models_.begin() ? INT64_MIN : model_->at_ns;
  high_ = next == models_.end() ? INT64_MAX : next->at_ns;
}

const ClockTable& clockOf(const Clocks& clocks, const std::string& node) {
  static const ClockTable none;
  auto it = clocks.find(node);
  return it == clocks.end() ? none : it->second;
}

int64_t worstBound(const Clocks& clocks) {
  int64_t worst = 0;
  for (const auto& [node, table] : clocks) worst = std::max(worst, table.worstBound());
  return worst;
}

Result<Clocks> readClocks(const Reader& reader) {
  Clocks tables, refined;
  RowCursor<ClockRow> rows(
      reader, {clocks::node, clocks::ts_from, clocks::offset_ns, clocks::drift_ppm, clocks::bound_ns, clocks::method});
  while (rows.next()) {
    const ClockRow& row = rows.row();
    if (row.ts_from == kNull || row.offset_ns == kNull) continue;
    ClockModel model{row.ts_from, row.offset_ns};
    if (row.drift_ppm != kNull) model.drift_ppm = std::bit_cast<double>(row.drift_ppm);
    if (row.bound_ns != kNull) model.bound_ns = row.bound_ns;
    model.method = rows.text(clocks::method);
    const bool better = model.method == "collectives";
    (better ? refined : tables)[std::string(rows.text(clocks::node))].add(model);
  }
  TS_TRY(rows.status());
  for (auto& [node, table] : tables) table.dropUnbounded();
  refined.merge(tables);
  return refined;
}

Result<std::unique_ptr<TraceClock>> TraceClock::load(const Reader& reader) {
  Result<Clocks> tables = readClocks(reader);
  if (!tables) return tables.status();
  if (tables->size() < 2) return std::unique_ptr<TraceClock>();
  auto clock = std::make_unique<TraceClock>();
  clock->tables_ = std::move(*tables);
  for (const Block& block : reader.blocks()) {
    const int node = block.table->find("node");
    int64_t low, high;
    if (node < 0 || block.table->find("ts") < 0 || !block.zone(node, low, high) || low < 0) continue;
    Result<const Strings*> strings = reader.strings(block.stream);
    if (!strings) return strings.status();
    std::vector<const ClockTable*>& ids = clock->of_stream_[block.stream];
    for (auto id = static_cast<int64_t>(ids.size()); id <= high; ++id) {
      const std::string_view name = (*strings)->at(id);
      auto it = clock->tables_.find(std::string(name));
      ids.push_back(it == clock->tables_.end() ? nullptr : &it->second);
    }
    if (low != high) TS_TRY(clock->lookInto(reader, block));
  }
  return clock;
}

/// The zones of a block with rows of several nodes say little.
Status TraceClock::lookInto(const Reader& reader, const Block& block) {
  const int ts = block.table->find("ts"), node = block.table->find("node"), dur = block.table->find("dur");
  BlockDecoder decoder(reader);
  ColumnData times, nodes, durations;
  if (!decoder.decode(block, ts, times) || !decoder.decode(block, node, nodes)) return {};  // the reader knows
  if (dur >= 0 && !decoder.decode(block, dur, durations)) return {};
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (uint32_t r = 0; r < block.rows; ++r) {
    if (!times.valid(r)) continue;
    const int64_t t = toReference(block, slotAt(nodes, Kind::Str, r), times.data<int64_t>()[r]);
    first = std::min(first, t);
    last = std::max(last, dur < 0 ? t : t + durations.data<int64_t>()[r]);
  }
  if (first <= last) of_mixed_blocks_[block.offset] = {first, last};
  return {};
}

const ClockTable* TraceClock::find(uint32_t stream, int64_t node) const {
  auto it = of_stream_.find(stream);
  if (it == of_stream_.end() || node < 0 || static_cast<size_t>(node) >= it->second.size()) return nullptr;
  return it->second[static_cast<size_t>(node)];
}

int64_t TraceClock::toReference(const Block& block, int64_t node, int64_t raw) const {
  const ClockTable* table = find(block.stream, node);
  return table ? table->toReference(raw) : raw;
}

void TraceClock::widen(const Block& block, int64_t& low, int64_t& high) const {
  if (auto it = of_mixed_blocks_.find(block.offset); it != of_mixed_blocks_.end()) {
    std::tie(low, high) = it->second;
    return;
  }
  const int node = block.table->find("node");
  int64_t first_id, last_id, first = INT64_MAX, last = INT64_MIN;
  if (node < 0 || !block.zone(node, first_id, last_id)) return;
  for (int64_t id = first_id; id <= last_id; ++id)
    if (const ClockTable* table = find(block.stream, id)) {
      int64_t from = low, to = high;
      table->widen(from, to);
      first = std::min(first, from);
      last = std::max(last, to);
    }
  if (first > last) return;
  low = first;
  high = last;
}

}  // namespace tracesmith::trace
