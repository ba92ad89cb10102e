// What limits say about clocks: a line that must pass between points, and clocks that are tied to each other.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tracesmith::sync {

/// A crystal's rate is constant to 0.02 ppm within minutes.
constexpr double kWander = 2e-8;

/// Argument of the largest value of a concave function, by the golden section: one of two values is known already.
template <typename F>
double argLargest(double low, double high, F f) {
  constexpr double kPart = 0.6180339887498949;
  constexpr int kRounds = 54;  // to 5e-12 of the range
  double left = high - kPart * (high - low), right = low + kPart * (high - low);
  double at_left = f(left), at_right = f(right);
  for (int i = 0; i < kRounds; ++i) {
    if (at_left < at_right) {
      low = left, left = right, at_left = at_right;
      at_right = f(right = low + kPart * (high - low));
    } else {
      high = right, right = left, at_right = at_left;
      at_left = f(left = high - kPart * (high - low));
    }
  }
  return (low + high) / 2;
}

struct Range {
  double low = 0, high = 0;
};

/// Limits of a quantity that changes evenly with time: the difference of two clocks. All in ns.
class LineLimits {
 public:
  void atMost(double t, double value) { upper_.push_back({t, value}); }
  void atLeast(double t, double value) { lower_.push_back({t, value}); }
  bool empty() const { return upper_.empty() && lower_.empty(); }

  /// Between what any line that fits lies at t, its slope at most max_slope; nothing: no line fits.
  std::optional<Range> at(double t, double max_slope) const;
  /// Of the limits in each of n even parts of [from, to] the tightest stay.
  void thin(double from, double to, size_t n);

 private:
  struct Limit {
    double t, value;
  };
  std::vector<Limit> upper_, lower_;
};

/// Limits of differences between n quantities, each difference from the limits of all others.
class Differences {
 public:
  explicit Differences(size_t n);
  /// x_to − x_from ≤ value
  void atMost(size_t from, size_t to, double value);
  /// False: the limits contradict each other.
  bool close();
  /// After close(): x_to − x_from.
  Range range(size_t from, size_t to) const { return {-most_[to * n_ + from], most_[from * n_ + to]}; }

 private:
  size_t n_;
  std::vector<double> most_;  // by from, then to
};

}  // namespace tracesmith::sync
