// What the watcher of a cluster says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/alert.hpp"

namespace tracesmith::analysis::live {

/// An operation that does not end.
struct StuckOp {
  std::string comm, op;
  uint64_t seq = 0;
  int32_t ranks = 0;                      ///< of the communicator
  std::vector<int32_t> entered, missing;  ///< ranks of the job
  int64_t bytes = 0;
  double age_s = 0;      ///< since the first rank waits
  std::string mismatch;  ///< what ranks do not agree about; empty: nothing
};

struct Culprit {
  int32_t rank = -1;  ///< of the job; -1: not known
  std::string node, reason;
  double confidence = 0;  ///< 0…1
};

enum class HangState : uint8_t { unknown, ok, slow, hang };

struct HangVerdict {
  HangState state = HangState::unknown;
  int64_t since_ns = 0;  ///< reference clock; 0: nothing is wrong
  std::string text;      ///< one sentence
  double confidence = 0;
  std::vector<StuckOp> communicators;  ///< those that stand still; the one at the root first
  std::vector<Culprit> culprits;
  bool at_files = false;  ///< the culprits read or write files
};

/// "unknown", "ok", "slow", "hang".
const char* stateName(HangState state);

}  // namespace tracesmith::analysis::live
