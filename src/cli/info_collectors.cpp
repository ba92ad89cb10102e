// What watching the hardware cost, as the recorder wrote it down.
#include <simdjson.h>

#include <algorithm>
#include <map>

#include "cli/info_summary.hpp"
#include "hardware/node/recorder.hpp"
#include "trace/rows.hpp"

namespace tracesmith::cli {

using namespace trace;

Status addCollectors(const Reader& reader, Summary& s) {
  std::map<std::string, std::string> last;  // of each node
  TS_TRY(forEachRow(reader, tableOf<MetadataRow>(), {}, {}, [&](const Row& r) {
    if (r.text(metadata::key) == hardware::kCostKey)
      last[std::string(r.text(metadata::node))] = std::string(r.text(metadata::value));
    return Status();
  }));
  for (const auto& [node, json] : last) {
    simdjson::dom::parser parser;
    simdjson::dom::array costs;
    if (parser.parse(json).get(costs)) continue;  // of a newer version
    for (simdjson::dom::element e : costs) {
      Summary::Collector c;
      std::string_view name;
      c.node = node;
      if (e["collector"].get(name) || e["cpu_s"].get(c.cpu_s) || e["wall_s"].get(c.wall_s) ||
          e["elapsed_s"].get(c.elapsed_s) || e["readings"].get(c.readings) || e["samples"].get(c.samples))
        continue;
      c.name = name;
      s.collectors.push_back(std::move(c));
    }
  }
  std::stable_sort(s.collectors.begin(), s.collectors.end(),
                   [](const auto& a, const auto& b) { return a.cpu_s > b.cpu_s; });
  return {};
}

}  // namespace tracesmith::cli
