// Several traces as one: the parts of a recording that was made by several programs at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// A row for `losses` of the joined trace, beside those of the parts.
struct JoinLoss {
  std::string cause, detail;
  int64_t count;
};

struct JoinReport {
  uint64_t parts = 0, nodes = 0, events = 0, bytes = 0;
  std::vector<std::string> problems;  ///< of parts that could be read only in part; rows of `losses`, too
};

/// Copies the blocks of `parts`, in this order, into the trace `output`, which is whole or absent. A node and its
/// clock, which several parts may describe, are taken from the first part that does. Memory does not grow with the
/// parts.
Result<JoinReport> joinTraces(const std::vector<std::string>& parts, const std::string& output,
                              const std::vector<JoinLoss>& losses = {});

}  // namespace tracesmith::trace
