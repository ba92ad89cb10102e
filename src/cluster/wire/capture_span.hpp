// What a master wants recorded: sent to agents, kept by them over restarts.
#pragma once

#include <cstdint>
#include <string>

namespace tracesmith::cluster {

/// [start, end) of the reference clock; end 0: until told otherwise.
struct CaptureSpan {
  std::string id;
  int64_t start_ns = 0, end_ns = 0;
  uint32_t freq_ms = 0;
  bool operator==(const CaptureSpan&) const = default;
};

}  // namespace tracesmith::cluster
