#include "cli/info_summary.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

#include "analysis/verdict/job_time.hpp"
#include "base/natural_order.hpp"
#include "sync/recording_span.hpp"
#include "trace/layout.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cli {
namespace {

using namespace trace;

constexpr uint64_t kQuick = 2'000'000;  // rows whose small columns decode in well under 0.1 s

void widen(std::optional<int64_t>& low, std::optional<int64_t>& high, const Block& block, const char* column) {
  int c = block.table->find(column);
  int64_t a, b;
  if (c < 0 || !block.zone(c, a, b)) return;
  low = low ? std::min(*low, a) : a;
  high = high ? std::max(*high, b) : b;
}

void addBlocks(const Reader& reader, Summary& s) {
  s.other_bytes = reader.fileSize();
  for (const Block& block : reader.blocks()) {
    auto it =
        std::find_if(s.tables.begin(), s.tables.end(), [&](const Summary::Table& t) { return t.info == block.table; });
    if (it == s.tables.end()) {
      s.tables.push_back({block.table, 0, 0, 0, {}});
      it = s.tables.end() - 1;
      for (const ColumnInfo& c : block.table->columns) it->columns.push_back({c.name, 0, 0});
    }
    it->rows += block.rows;
    it->bytes += block.size;
    it->blocks += 1;
    s.other_bytes -= std::min<uint64_t>(s.other_bytes, block.size);
    for (size_t c = 0; c < it->columns.size(); ++c)
      if (const ColumnEntry* e = block.find(static_cast<int>(c))) {
        it->columns[c].values += e->values;
        it->columns[c].bytes += e->size;
      }
    if (block.table == &tableOf<EventRow>()) {
      uint64_t device_types = 0;
      for (int t = 0; t < kEventTypes; ++t)
        if (isDeviceType(static_cast<EventType>(t))) device_types |= 1ull << t;
      ((block.types() & ~device_types) == 0 ? s.device_rows : s.host_rows) += block.rows;
    }
  }
  auto place = [](const Summary::Table& t) { return t.info - tables().data(); };
  std::sort(s.tables.begin(), s.tables.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

/// Ranks and nodes, from zones where a block has only one, as nearly all have. Of the others the first are looked into,
/// and what lies between the zones of the rest is taken to be there.
Status addPlaces(const Reader& reader, Summary& s) {
  std::set<int64_t> ranks;
  std::set<std::string, NaturalOrder> nodes;
  BlockDecoder decoder(reader);
  ColumnData data;
  uint64_t budget = kQuick;
  int64_t last_node = kNull;  // its id in last_stream
  uint32_t last_stream = 0;
  auto decode = [&](const Block& block, int column) {
    if (budget < block.rows) return false;
    budget -= block.rows;
    return decoder.decode(block, column, data).ok();
  };
  for (const Block& block : reader.blocks()) {
    int rank = block.table->find("rank"), node = block.table->find("node");
    int64_t low, high;
    if (rank >= 0 && block.table != &tableOf<MetadataRow>() && block.table != &tableOf<LossRow>()) {
      bool has = block.zone(rank, low, high);
      if (!has || block.find(rank)->values < block.rows) ranks.insert(kNull);
      if (has) ranks.insert({low, high});
      if (has && low != high && decode(block, rank)) {
        for (uint32_t r = 0; r < block.rows; ++r)
          if (int64_t v = slotAt(data, Kind::Int32, r); v != low && v != kNull) ranks.insert(low = v);
      } else if (has && high - low < 1'000'000) {
        for (int64_t r = low; r < high; ++r) ranks.insert(r);
      }
    }
    if (node >= 0 && block.zone(node, low, high)) {
      Result<const Strings*> strings = reader.strings(block.stream);
      if (!strings) return strings.status();
      if (block.stream != last_stream) last_node = kNull;
      last_stream = block.stream;
      auto add = [&](int64_t id) {
        if (std::string_view name = (*strings)->at(id); name.data()) nodes.emplace(name);
      };
      if (low != last_node) add(low);
      last_node = low;
      if (low != high) add(high);
      if (low != high && decode(block, node))
        for (uint32_t r = 0; r < block.rows; ++r)
          if (int64_t v = slotAt(data, Kind::Str, r); v != low && v != kNull) add(low = v);
    }
  }
  if (ranks.size() > 1) ranks.erase(kNull);
  s.ranks.assign(ranks.begin(), ranks.end());
  s.nodes.assign(nodes.begin(), nodes.end());
  return {};
}

Status addSmallTables(const Reader& reader, Summary& s) {
  TS_TRY(
      forEachRow(reader, tableOf<DeviceRow>(), {}, {devices::node, devices::name, devices::device}, [&](const Row& r) {
        s.devices.push_back(
            {std::string(r.text(devices::node)), std::string(r.text(devices::name)), r.slot(devices::device)});
        return Status();
      }));
  std::map<std::string, Summary::Clock, NaturalOrder> clocks;
  TS_TRY(forEachRow(reader, tableOf<ClockRow>(), {}, {}, [&](const Row& r) {
    Summary::Clock& c = clocks[std::string(r.text(clocks::node))];
    c.node = r.text(clocks::node);
    c.method = r.text(clocks::method);
    c.reference = r.text(clocks::reference);
    c.offset_ns = r.slot(clocks::offset_ns);
    c.bound_ns = r.slot(clocks::bound_ns);
    if (r.slot(clocks::drift_ppm) != kNull) c.drift_ppm = r.real(clocks::drift_ppm);
    ++c.rows;
    return Status();
  }));
  for (auto& [node, clock] : clocks) s.clocks.push_back(std::move(clock));
  std::map<std::string, Summary::Loss> losses;
  TS_TRY(forEachRow(reader, tableOf<LossRow>(), {}, {}, [&](const Row& r) {
    std::string_view cause = r.text(losses::cause);
    Summary::Loss& l = losses[std::string(cause.data() ? cause : "unknown")];
    if (l.detail.empty()) l.detail = r.text(losses::detail);
    l.count += r.slot(losses::count) == kNull ? 1 : static_cast<uint64_t>(r.slot(losses::count));
    ++l.rows;
    return Status();
  }));
  for (auto& [cause, loss] : losses) {
    loss.cause = cause;
    s.losses.push_back(std::move(loss));
  }
  s.simulated = isSimulated(reader);
  TS_TRY(addCollectors(reader, s));
  TS_TRY(addWatched(reader, s));
  return forEachRow(reader, tableOf<SessionRow>(), {}, {}, [&](const Row& r) {
    int64_t start = r.slot(sessions::ts_start);
    if (start != kNull) s.recorded_ns = s.recorded_ns ? std::min(*s.recorded_ns, start) : start;
    std::string source(r.text(sessions::source));
    if (!source.empty() && std::ranges::count(s.sources, source) == 0) s.sources.push_back(source);
    return Status();
  });
}

Status addCollectives(const Reader& reader, Summary& s) {
  std::map<std::pair<std::string_view, std::string_view>, Summary::Collective> all;
  TS_TRY(forEachRow(reader, tableOf<CollectiveRow>(), {}, {collectives::op, collectives::comm, collectives::bytes},
                    [&](const Row& r) {
                      Summary::Collective& c = all[{r.text(collectives::op), r.text(collectives::comm)}];
                      ++c.count;
                      if (int64_t bytes = r.slot(collectives::bytes); bytes > 0)
                        c.bytes += static_cast<uint64_t>(bytes);
                      return Status();
                    }));
  s.collectives.emplace();
  for (auto& [key, c] : all)
    s.collectives->push_back({std::string(key.first), std::string(key.second), c.count, c.bytes});
  std::stable_sort(s.collectives->begin(), s.collectives->end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return {};
}

void addTypes(const Reader& reader, Summary& s) {
  s.by_type.emplace(kEventTypes, 0);
  BlockDecoder decoder(reader);
  ColumnData data;
  for (const Block* block : reader.blocks(tableOf<EventRow>())) {
    if (!decoder.decode(*block, events::type, data, true)) continue;
    for (uint32_t r = 0; r < block->rows; ++r) {
      auto type = data.data<uint8_t>()[data.constant() ? 0 : r];
      (*s.by_type)[std::min<size_t>(type, kEventTypes - 1)] += 1;
    }
  }
}

/// From the first to the last marked step, without reading rows.
void addMarked(const Reader& reader, const trace::Clocks& clocks, Summary& s) {
  sync::BlockSpans spans(reader, clocks);
  int64_t start = INT64_MAX, end = INT64_MIN;
  for (const Block* b : reader.blocks(tableOf<StepRow>()))
    if (const std::optional<sync::Span> span = spans.of(*b)) {
      start = std::min(start, span->start);
      end = std::max(end, span->end);
    }
  if (start >= end) return;
  auto us = [](int64_t from, int64_t to) { return static_cast<double>(to - from) / 1000; };
  s.job = Summary::Job{us(start, end), us(*s.start_ns, start), NAN, "marks", std::nullopt};
}

}  // namespace

Result<Summary> summarize(const Reader& reader, bool full) {
  Summary s;
  Result<trace::Clocks> clocks = trace::readClocks(reader);
  if (!clocks) return clocks.status();
  if (const std::optional<sync::Span> span = sync::recordingSpan(reader, *clocks)) {
    s.start_ns = span->start;
    s.end_ns = span->end;
  }
  addBlocks(reader, s);
  TS_TRY(addPlaces(reader, s));
  TS_TRY(addSmallTables(reader, s));
  Result<std::vector<analysis::OutOfMemory>> out = analysis::findOutOfMemory(reader);
  if (!out) return out.status();
  s.out_of_memory = std::move(*out);
  const TableInfo& with_steps = reader.rows(tableOf<StepRow>()) > 0 ? tableOf<StepRow>() : tableOf<EventRow>();
  for (const Block& b : reader.blocks())
    if (b.table == &with_steps) widen(s.first_step, s.last_step, b, "step");
  if (full || reader.rows(tableOf<EventRow>()) < kQuick) {
    addTypes(reader, s);
    if (Result<analysis::Analysis> a = analysis::findJobTime(reader))
      s.job =
          Summary::Job{a->job_us, a->startup_us, a->step_us, a->steps.empty() ? "none" : a->steps_by, a->steps.size()};
  } else if (s.start_ns) {
    addMarked(reader, *clocks, s);
  }
  if (full || reader.rows(tableOf<CollectiveRow>()) < kQuick) TS_TRY(addCollectives(reader, s));
  constexpr int64_t kYear2000 = 946'684'800'000'000'000;
  if (!s.recorded_ns && s.start_ns && *s.start_ns > kYear2000) s.recorded_ns = s.start_ns;
  return s;
}

std::string numberRanges(const std::vector<int64_t>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) out += (last == i + 1 ? "," : "-") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out;
}

std::string utcTime(int64_t unix_ns) {
  auto seconds = static_cast<time_t>(unix_ns / 1'000'000'000);
  std::tm tm{};
  char buffer[64];
  if (!gmtime_r(&seconds, &tm) || std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) return "?";
  return buffer;
}

}  // namespace tracesmith::cli
