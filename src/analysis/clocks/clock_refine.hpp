// Clocks made better by collectives: nobody leaves a synchronising one before the last has come, and all leave it
// nearly together. The first limits the difference of any two clocks, over all pairs and with drift; the second
// says where between the limits they are. The limits of the clocks in the trace stay in force.
#pragma once

#include <string>
#include <vector>

#include "analysis/collectives/collective_parts.hpp"

namespace tracesmith::analysis {

struct Refinement {
  bool used = false;
  std::string reference;  ///< the clock domain the new bounds are against
  int64_t bound_before_ns = trace::kNull, bound_after_ns = trace::kNull;  ///< worst between it and any other
  std::vector<std::string> faults;  ///< sentences: clocks that cannot be as the trace says
};

/// Refines the clocks of a closed trace and adds them to it, as rows of `clocks` with the method "collectives".
/// The rows that were there stay: correction is data.
Result<Refinement> storeRefinedClocks(const std::string& path);

/// Replaces the clocks where that tightens what is known between nodes. Times of parts are raw.
Refinement refineClocks(const PartTable& table, trace::Clocks& clocks);

}  // namespace tracesmith::analysis
