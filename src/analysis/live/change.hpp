// A series of measurements that is even until something changes: says when it has become larger for good.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace tracesmith::analysis::live {

struct Change {
  int64_t t_ns;          ///< of the first value that was larger
  double before, after;  ///< medians
};

/// Compares the last three values with the median of up to 60 before them. All three must lie above it by `least`, and
/// by eight robust standard deviations.
class ChangeDetector {
 public:
  /// `least`: smallest change that matters; relative: as a part of the median before.
  ChangeDetector(double least, bool relative) : least_(least), relative_(relative) {}

  std::optional<Change> add(double value, int64_t t_ns);

 private:
  struct Value {
    double value;
    int64_t t_ns;
  };
  const double least_;
  const bool relative_;
  std::deque<Value> values_;
};

}  // namespace tracesmith::analysis::live
