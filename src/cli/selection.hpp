// --from, --to, --rank, --device, --type: the same on every command that reads a trace.
#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cli {

struct SelectionOptions {
  std::string from, to;
  std::vector<int64_t> ranks, devices;
  std::vector<std::string> types;

  void add(Command& command);
  bool none() const { return from.empty() && to.empty() && ranks.empty() && devices.empty() && types.empty(); }
  /// Relative times count from the first event of the trace. `clock`: the one that rows shall be on, if any.
  Result<trace::Selection> resolve(const trace::Reader& reader, const trace::CommonClock* clock = nullptr) const;
};

}  // namespace tracesmith::cli
