// Whether a trace of a fleet has every event, once, in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::bench {

struct FleetCheck {
  uint64_t events = 0, doubled = 0, foreign = 0, out_of_order = 0;
  std::vector<uint64_t> of_node;
  uint64_t samples = 0;                   ///< of telemetry
  uint64_t fewest = 0;                    ///< of one device and metric
  uint64_t series = 0;                    ///< that there are
  uint64_t losses = 0;                    ///< rows lost, as the trace itself says
  uint64_t damaged = 0;                   ///< blocks
  std::vector<uint64_t> missing_of_ring;  ///< by node and rank, of the events it wrote
};

/// `written`: events of each ring, by node and rank. Goes through the trace as one timeline, by corrected time.
Result<FleetCheck> checkFleet(const std::string& trace, int nodes, int ranks, const std::vector<uint64_t>& written);

}  // namespace tracesmith::bench
