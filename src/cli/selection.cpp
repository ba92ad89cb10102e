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
  int64_t start, end;
  trace::tableTimes(reader, trace::tableOf<trace::EventRow>(), clock, start, end);
  TS_TRY(resolveTime(from, start, s.from));
  TS_TRY(resolveTime(to, start, s.to));
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
