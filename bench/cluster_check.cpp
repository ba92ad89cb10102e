#include "cluster_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "cluster_fleet.hpp"
#include "trace/clocks.hpp"
#include "trace/time_order.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::bench {

using namespace trace;

namespace {

int nodeIndex(std::string_view name) {
  return name.size() == 7 && name.starts_with("node") ? std::atoi(std::string(name.substr(4)).c_str()) : -1;
}

/// Which events of a ring were seen.
class Seen {
 public:
  explicit Seen(uint64_t count) : bits_((count + 63) / 64), count_(count) {}
  /// False: it was there already, or cannot be.
  bool add(uint64_t event) {
    if (event >= count_) return false;
    uint64_t& word = bits_[event / 64];
    const uint64_t bit = 1ull << event % 64;
    if (word & bit) return false;
    word |= bit;
    ++found_;
    return true;
  }
  uint64_t missing() const { return count_ - found_; }

 private:
  std::vector<uint64_t> bits_;
  uint64_t count_, found_ = 0;
};

Status checkEvents(const Reader& reader, int nodes, int ranks, const std::vector<uint64_t>& written,
                   FleetCheck& check) {
  const TableInfo& table = tableOf<EventRow>();
  Result<std::unique_ptr<trace::TraceClock>> clock = trace::TraceClock::load(reader);
  if (!clock) return clock.status();
  std::vector<Seen> seen;
  for (uint64_t count : written) seen.emplace_back(count);
  check.of_node.resize(static_cast<size_t>(nodes));
  const int node = table.find("node"), rank = table.find("rank"), type = table.find("type"),
            correlation = table.find("correlation");
  Selection all;
  all.clock = clock->get();
  TimeOrder order(reader, table, all, {table.find("ts"), table.find("dur"), node, rank, type, correlation},
                  reader.blocks(table));
  int64_t last = INT64_MIN;
  while (order.next()) {
    ++check.events;
    check.out_of_order += order.ts() < last;
    last = order.ts();
    const Row& row = order.row();
    const int n = nodeIndex(row.text(node));
    const int64_t r = row.slot(rank), k = row.slot(correlation);
    if (n < 0 || n >= nodes || r < 0 || r / ranks != n || k < 1) {
      ++check.foreign;
      continue;
    }
    ++check.of_node[static_cast<size_t>(n)];
    const bool kernel = row.slot(type) == static_cast<int64_t>(EventType::kernel);
    check.doubled += !seen[static_cast<size_t>(r)].add(static_cast<uint64_t>(k - 1) * 2 + kernel);
  }
  for (const Seen& s : seen) check.missing_of_ring.push_back(s.missing());
  return order.status();
}

void checkTelemetry(const Reader& reader, FleetCheck& check) {
  const TableInfo& table = tableOf<MetricRow>();
  const int node = table.find("node"), device = table.find("device"), name = table.find("name");
  BlockRows rows(reader, table, {}, {table.find("ts"), node, device, name});
  std::map<std::tuple<std::string, int64_t, std::string>, uint64_t> series;
  for (const Block* block : rows.candidates()) {
    if (!rows.load(*block)) continue;
    for (const uint32_t r : rows.rows()) {
      ++series[{std::string(rows.text(node, r)), rows.slot(device, r), std::string(rows.text(name, r))}];
      ++check.samples;
    }
  }
  check.series = series.size();
  check.fewest = UINT64_MAX;
  for (const auto& [key, count] : series) check.fewest = std::min(check.fewest, count);
}

void readLosses(const Reader& reader, FleetCheck& check) {
  const TableInfo& table = tableOf<LossRow>();
  const int count = table.find("count");
  BlockRows rows(reader, table, {}, {count});
  for (const Block* block : rows.candidates())
    if (rows.load(*block))
      for (const uint32_t r : rows.rows()) {
        const int64_t n = rows.slot(count, r);
        check.losses += n == kNull ? 1 : static_cast<uint64_t>(n);
      }
}

}  // namespace

Result<FleetCheck> checkFleet(const std::string& trace, int nodes, int ranks, const std::vector<uint64_t>& written) {
  Result<std::unique_ptr<Reader>> reader = Reader::open(trace);
  if (!reader) return reader.status();
  FleetCheck check;
  TS_TRY(checkEvents(**reader, nodes, ranks, written, check));
  checkTelemetry(**reader, check);
  readLosses(**reader, check);
  check.damaged = (*reader)->damage().size();
  return check;
}

}  // namespace tracesmith::bench
