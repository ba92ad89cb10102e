#include "cli/outcome.hpp"

#include <cstdio>

#include "cli/commands.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cli {

int usage(const std::string& command, const std::string& message) {
  std::fprintf(stderr, "tracesmith: %s (see tracesmith %s --help)\n", message.c_str(), command.c_str());
  return 2;
}

int finish(const trace::Reader& reader, bool strict) {
  std::string damage = reader.damageSummary();
  if (strict && !damage.empty()) return fail(Status::corrupt(damage));
  warn(damage);
  if (trace::isSimulated(reader))
    std::fprintf(stderr, "tracesmith: note: %s contains simulated data\n", reader.path().c_str());
  return 0;
}

std::string unknownTable(const std::string& name) {
  std::string known;
  for (const trace::TableInfo& t : trace::tables()) known += std::string(known.empty() ? "" : ", ") + t.name;
  return "no table '" + name + "'; the tables are " + known;
}

}  // namespace tracesmith::cli
