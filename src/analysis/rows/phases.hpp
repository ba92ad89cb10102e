// Forward, backward, optimizer, data: which phase of training a host range stands for, and which phase a moment of a
// rank's host belongs to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/rows/intervals.hpp"
#include "analysis/rows/rank_rows.hpp"

namespace tracesmith::analysis {

enum class Phase : uint8_t { forward, backward, optimizer, data, none };

/// Phase a range or operator of this name stands for.
Phase phaseOfName(std::string_view name);

/// Why a host launches nothing for a while, where a range says it.
enum class Pause : uint8_t { none, checkpoint, collection };
Pause pauseOfName(std::string_view name);

/// The phases of one rank over time: where ranges overlap, the one that began last counts.
class PhaseTimeline {
 public:
  /// phases: by name.
  PhaseTimeline(const std::vector<HostRange>& ranges, const std::vector<Phase>& phases);
  bool empty() const { return segments_.empty(); }
  Phase at(int64_t ts) const;
  bool has(Phase phase) const;
  /// The time the host was in the phase.
  Union of(Phase phase) const;

 private:
  struct Segment {
    int64_t from, to;
    Phase phase;
  };
  std::vector<Segment> segments_;
};

}  // namespace tracesmith::analysis
