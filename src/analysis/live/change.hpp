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

/// Compares the last 3, 6, 12 or 24 values with up to 60 before them. A large change is seen at once: all three must
/// lie above the median before by `least`, and by eight times the spread. A small one takes longer: the median of the
/// last must lie above by `least` and by several standard errors, and most of them above three quarters of those
/// before.
class ChangeDetector {
 public:
  /// `least`: smallest change that matters; relative: as a part of the median before.
  ChangeDetector(double least, bool relative) : least_(least), relative_(relative) {}

  std::optional<Change> add(double value, int64_t t_ns);

 private:
  std::optional<Change> compare(size_t window) const;

  struct Value {
    double value;
    int64_t t_ns;
  };
  const double least_;
  const bool relative_;
  std::deque<Value> values_;
};

}  // namespace tracesmith::analysis::live
