// Which kernel an operation ran as, found once more. A recording can carry the kernel of another operation: earlier
// versions lost count when the records of a job came out of order, and from there on every operation of a stream had
// its neighbour's kernel. The kernels and the calls that launched them are in the trace all the same.
#pragma once

#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

struct Rejoined {
  uint64_t moved = 0;    ///< operations that have another kernel now, or have one at all
  uint64_t without = 0;  ///< operations that lost a kernel which was not theirs, and for which there is no other
};

/// Checks the processes whose operations lack kernels or have them out of order, and joins them again: by the launch
/// call right before NCCL reported the operation, else by the order of launches on the stream. Times of parts are raw.
Result<Rejoined> rejoinKernels(const trace::Reader& reader, const trace::NameNumbers& names, PartTable& table);

}  // namespace tracesmith::analysis
