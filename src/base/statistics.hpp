// Medians and quantiles, the same everywhere: linear between neighbours, as numpy and pandas compute them.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <vector>

namespace tracesmith {

/// Of values in ascending order, none of them NaN; q in 0..1. NaN when there is none.
inline double quantileOfSorted(const std::vector<double>& ascending, double q) {
  if (ascending.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = q * static_cast<double>(ascending.size() - 1);
  const auto low = static_cast<size_t>(at);
  if (low + 1 >= ascending.size()) return ascending.back();
  return ascending[low] + (at - static_cast<double>(low)) * (ascending[low + 1] - ascending[low]);
}

/// As quantileOfSorted(), but always one of the values, the upper one where it would lie between two: where a few
/// values are far off, nothing lies half-way to them. There must be one.
inline double upperQuantileOfSorted(const std::vector<double>& ascending, double q) {
  return ascending[std::min(ascending.size() - 1, static_cast<size_t>(q * static_cast<double>(ascending.size())))];
}

/// Of values in any order. NaN counts as not measured. NaN when nothing was measured.
inline double quantile(std::vector<double> values, double q) {
  std::erase_if(values, [](double v) { return std::isnan(v); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::ptrdiff_t>(at);
  const auto it = values.begin() + low;
  std::nth_element(values.begin(), it, values.end());
  const double part = at - static_cast<double>(low);
  return part == 0 ? *it : *it + part * (*std::min_element(it + 1, values.end()) - *it);
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Of whole numbers; half-way between the two in the middle, rounded down. There must be one.
template <std::integral T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 ? *middle : *middle + (*std::min_element(middle + 1, values.end()) - *middle) / 2;
}

}  // namespace tracesmith
