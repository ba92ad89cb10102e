// Memory that ran out, as the Python hooks tell it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// A process that ran out of memory: the last time that it did.
struct OutOfMemory {
  struct Held {
    std::string line;  ///< of the program, or what it is for
    double bytes = 0, blocks = 0;
  };
  std::optional<int64_t> rank, pid, step;
  std::string line;  ///< that asked for more; empty: not known
  std::optional<double> allocated, total, wanted;
  std::vector<Held> held;  ///< what was alive, the largest first

  /// "rank 3 ran out of memory in step 5 at train.py:9: …; the largest: …", of which the `most` largest.
  std::string text(size_t most) const;
};

/// By rank. Quick where none did.
Result<std::vector<OutOfMemory>> findOutOfMemory(const trace::Reader& reader);

}  // namespace tracesmith::analysis
