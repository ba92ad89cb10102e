// The rows of `clocks` of one node, for whoever puts its times on the common clock.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sync/clock_fit.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::sync {

/// Models of one node, each in force from its at_ns to the next one's.
class ClockTable {
 public:
  void add(const ClockModel& model);
  bool empty() const { return models_.empty(); }
  size_t size() const { return models_.size(); }

  /// Without a model the clock is taken as it is.
  int64_t toReference(int64_t raw) const;
  int64_t toRaw(int64_t reference) const;
  /// Bound of the error at that time, ns; INT64_MAX if unknown.
  int64_t boundAt(int64_t raw) const;

 private:
  const ClockModel* inForce(int64_t raw) const;
  std::vector<ClockModel> models_;  // by at_ns
};

/// The clock tables of a trace, by node.
Result<std::map<std::string, ClockTable>> readClocks(const trace::Reader& reader);

}  // namespace tracesmith::sync
