// What the methods of the C API take and give, listed once: the structs of the public headers, and a few of its own.
#pragma once

#include "sdk/json.hpp"

namespace tracesmith::sdk {

struct TraceConfig {
  std::string path;
  std::string memory;    ///< that SQL may use: "2GB"; empty: half of the machine's
  uint32_t threads = 0;  ///< 0: all cores
};
FIELDS(TraceConfig, path, memory, threads)

struct AnalyzeConfig {
  std::string comm_rules;  ///< a file, as `tracesmith analyze --comm-rules` takes it
};
FIELDS(AnalyzeConfig, comm_rules)

struct DiffConfig {
  std::string comm_rules;
  std::optional<int64_t> rank, step;  ///< whose events are compared by name; absent: the first
};
FIELDS(DiffConfig, comm_rules, rank, step)

}  // namespace tracesmith::sdk
