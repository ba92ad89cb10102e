// How an operation of a rank stands to the rest of its work: what of it runs without computation under it, what it
// waits for, and what waits for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/collectives/collective_parts.hpp"
#include "analysis/rows/intervals.hpp"
#include "analysis/rows/rank_rows.hpp"

namespace tracesmith::analysis {

/// When a rank did what.
struct WorkTimes {
  const std::vector<Interval>& compute;
  const std::vector<Interval>& late;  ///< the device idle, and nothing launched yet
  const std::vector<Interval>& own;   ///< computation that no other rank does
  std::vector<int64_t> done;          ///< by call: when the computation or copy that it launched was done; or empty
  std::vector<int64_t> begun;         ///< by call: when the computation that it launched began; or empty
};

/// Sets exposed_ns, blocks, slack_ns, held_ns, and how late the host was and how much of its own work was done at each
/// part. `recognised`: operations that are known by their kernels only, of which only the first four are set.
void setExposures(const RankRows& rows, std::span<Part> parts, std::vector<Part>& recognised, const WorkTimes& times);

}  // namespace tracesmith::analysis
