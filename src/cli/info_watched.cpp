// What the recorder wrote down of itself: what watch mode did and costs, and how the recording ended.
#include <simdjson.h>

#include <map>

#include "cli/info_summary.hpp"
#include "model/coverage.hpp"
#include "trace/name_numbers.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cli {

using namespace trace;

Status addWatched(const Reader& reader, Summary& s) {
  Result<NameNumbers> names = NameNumbers::load(reader);
  if (!names) return names.status();
  for (uint32_t n = 0; n < names->size() && !s.ends_in_flight; ++n)
    s.ends_in_flight = names->text(n) == model::kEndsInFlight;
  std::map<std::pair<std::string, int64_t>, std::string> last;  // of each rank
  TS_TRY(forEachRow(reader, tableOf<MetadataRow>(), {}, {}, [&](const Row& r) {
    if (r.text(metadata::key) == model::kWatchKey)
      last[{std::string(r.text(metadata::node)), r.slot(metadata::rank)}] = std::string(r.text(metadata::value));
    return Status();
  }));
  for (const auto& [rank, json] : last) {
    simdjson::dom::parser parser;
    simdjson::dom::object o;
    uint64_t steps = 0, every = 0, asked = 0;
    if (parser.parse(json).get(o) || o["window_steps"].get(steps) || o["window_every"].get(every) ||
        o["window_asked"].get(asked))
      continue;  // of a newer version
    capture::Watched w{
        static_cast<uint32_t>(steps), static_cast<uint32_t>(every), static_cast<uint32_t>(asked), {}, {}};
    double percent = 0;
    if (!o["budget_percent"].get(percent)) w.budget_percent = percent;
    if (!o["cost_percent"].get(percent)) w.cost_percent = percent;
    capture::merge(s.watched, w);
  }
  return {};
}

}  // namespace tracesmith::cli
