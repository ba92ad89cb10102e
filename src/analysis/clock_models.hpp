// From the raw clock of a node to the reference clock: what the table `clocks` says, or what the collectives tell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/names.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

/// reference = ts + offset + drift × (ts − from), for ts ≥ from.
struct ClockSegment {
  int64_t from, offset_ns;
  double drift_ppm;
  int64_t bound_ns;  ///< kNull: not known
  std::string method;
};

/// The clocks of a trace, by clock domain: a node, or a rank whose node is not known.
class ClockModels {
 public:
  /// The rows of `clocks`, by node.
  static Result<ClockModels> load(const trace::Reader& reader, const Names& names);

  bool knows(const std::string& domain) const { return segments_.contains(domain); }
  void set(const std::string& domain, std::vector<ClockSegment> segments) { segments_[domain] = std::move(segments); }
  const std::map<std::string, std::vector<ClockSegment>>& segments() const { return segments_; }

  /// The segments of a domain, for many calls of toReference(); nullptr: its clock is the reference.
  const std::vector<ClockSegment>* find(const std::string& domain) const;
  static int64_t toReference(const std::vector<ClockSegment>* segments, int64_t ts);
  /// The raw time that becomes this reference time, to a few ns.
  static int64_t toRaw(const std::vector<ClockSegment>* segments, int64_t reference);
  /// Largest bound of any domain; kNull if one is not known.
  int64_t bound() const;

 private:
  std::map<std::string, std::vector<ClockSegment>> segments_;  // by from
};

/// A pair of readings of the same instant.
struct ClockSample {
  int64_t raw, reference;
};
/// Robust line through samples: median slope, median offset; the bound holds 95 % of what is left.
ClockSegment fitClock(std::vector<ClockSample> samples);

}  // namespace tracesmith::analysis
