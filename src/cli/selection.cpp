#include "cli/selection.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

/// "1.5s" counts from `start`; a plain integer is a time of the trace.
Status resolveTime(const std::string& text, int64_t start, int64_t& out) {
  if (text.empty()) return {};
  if (parseInt(text, out)) return {};
  int64_t ns;
  if (!parseDuration(text, ns))
    return Status::invalid(
        "'" + text + "' is not a time: give ns as in the trace, or a time after its start such as 1.5s, 20ms or 300us");
  out = start + ns;
  return {};
}

/// What a number that no row has would select is nothing, which looks like a quiet rank. Where `wanted` lies outside of
/// all blocks' ranges, the message says what there is.
Status checkThere(const trace::Reader& reader, const char* column, const char* what,
                  const std::vector<int64_t>& wanted) {
  int64_t least = INT64_MAX, most = INT64_MIN;
  std::vector<std::pair<int64_t, int64_t>> zones;
  for (const trace::TableInfo& table : trace::tables())
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (std::string_view(table.columns[c].name) != column) continue;
      for (const trace::Block* block : reader.blocks(table)) {
        int64_t low, high;
        if (!block->zone(static_cast<int>(c), low, high)) continue;
        if (zones.empty() || zones.back() != std::pair(low, high)) zones.emplace_back(low, high);
        least = std::min(least, low);
        most = std::max(most, high);
      }
    }
  for (const int64_t value : wanted) {
    const bool there = std::any_of(zones.begin(), zones.end(),
                                   [&](const auto& zone) { return zone.first <= value && value <= zone.second; });
    if (there) continue;
    const std::string number = std::string(what) + " " + std::to_string(value);
    if (zones.empty())
      return Status::notFound("there is no " + number + ": this trace does not tell the " + what + "s");
    return Status::notFound("there is no " + number + ": this trace has " + what +
                            (least == most ? " " + std::to_string(least)
                                           : "s from " + std::to_string(least) + " to " + std::to_string(most)));
  }
  return {};
}

/// The same of a window: outside of all rows there is nothing, which looks like a quiet time.
Status checkWindow(const trace::Reader& reader, const trace::CommonClock* clock, int64_t from, int64_t to) {
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const trace::TableInfo& table : trace::tables())
    for (const trace::Block* block : reader.blocks(table)) {
      int64_t low, high;
      if (!trace::blockTimes(*block, clock, low, high)) continue;
      first = std::min(first, low);
      last = std::max(last, high);
    }
  if (first > last || (from <= last && to > first)) return {};
  return Status::notFound("there is nothing in that window: this trace has times from " + std::to_string(first) +
                          " to " + std::to_string(last) + " ns, " +
                          humanNs(static_cast<double>(last) - static_cast<double>(first)));
}

}  // namespace

void SelectionOptions::add(Command& command) {
  command
      .option("--from", from,
              "Only rows that end at or after TIME: ns as in the trace, or a time after its start such as 1.5s")
      .type("TIME");
  command.option("--to", to, "Only rows that start before TIME").type("TIME");
  command.option("--rank", ranks, "Only these ranks: 0,3,7").commas().oneWord();
  command.option("--device", devices, "Only these GPUs, by their index on the node: 0,1").commas().oneWord();
  command.option("--type", types, "Only these types: kernel,memcpy,…").commas().oneWord();
}

Result<trace::Selection> SelectionOptions::resolve(const trace::Reader& reader, const trace::CommonClock* clock) const {
  trace::Selection s;
  s.clock = clock;
  s.ranks = ranks;
  s.devices = devices;
  TS_TRY(checkThere(reader, "rank", "rank", ranks));
  TS_TRY(checkThere(reader, "device", "GPU", devices));
  int64_t start, end;
  trace::tableTimes(reader, trace::tableOf<trace::EventRow>(), clock, start, end);
  TS_TRY(resolveTime(from, start, s.from));
  TS_TRY(resolveTime(to, start, s.to));
  if (!from.empty() || !to.empty()) TS_TRY(checkWindow(reader, clock, s.from, s.to));
  if (!types.empty()) s.types = 0;
  for (const std::string& t : types) {
    trace::EventType type;
    if (!trace::parseEventType(t, type)) {
      std::string known;
      for (int i = 0; i < trace::kEventTypes; ++i)
        known += std::string(i ? ", " : "") + trace::eventTypeName(static_cast<trace::EventType>(i));
      return Status::invalid("no event type '" + t + "'; the types are " + known);
    }
    s.types |= 1ull << static_cast<int>(type);
  }
  return s;
}

}  // namespace tracesmith::cli
