// All ranks stand still, nobody is missing, and nobody sees operations end: the GPU is not recorded now (watch mode).
//
// What all have launched may have ended long ago. But where each rank is inside a step and has launched nothing for
// many times as long as it ever did, or where its GPU is still busy, the last operation most likely has not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/live/report.hpp"

namespace tracesmith::analysis::live {

struct Standstill {
  std::string op, comm_name;
  uint64_t comm = 0, seq = 0;     ///< of the last operation that all ranks of the largest communicator have launched
  std::optional<int64_t> bytes;   ///< null: not known
  std::vector<int32_t> ranks;     ///< that have: all
  int64_t at_ns = 0;              ///< when the last of them launched something
  int64_t waited_ns = 0;          ///< for so long, for sure
  bool in_step = false;           ///< every rank is inside a step
  std::optional<bool> gpus_busy;  ///< on every node; null: not known of each
};

/// A node's newest report and when it came.
struct Heard {
  const NodeReport* report;
  int64_t at_ns;
};

/// Nothing if a rank has something in flight whose end would be seen, is not running, works with files, or if ranks
/// have not all launched the same.
std::optional<Standstill> findStandstill(const std::vector<Heard>& nodes);

void describeStandstill(const Standstill& s, HangVerdict& verdict);

}  // namespace tracesmith::analysis::live
