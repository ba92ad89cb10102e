// Sorting what is nearly in order: rows of a few sources, each sorted, written one after another in short turns.
#pragma once

#include <algorithm>
#include <vector>

namespace tracesmith::analysis {

/// As std::stable_sort. Runs that are sorted already are merged, and only where they overlap.
template <typename T, typename Before>
void sortRuns(std::vector<T>& v, Before before) {
  std::vector<size_t> bounds = {0};
  for (size_t i = 1; i < v.size(); ++i)
    if (before(v[i], v[i - 1])) bounds.push_back(i);
  bounds.push_back(v.size());
  auto at = [&](size_t i) { return v.begin() + static_cast<std::ptrdiff_t>(i); };
  while (bounds.size() > 2) {
    std::vector<size_t> merged = {0};
    for (size_t i = 0; i + 2 < bounds.size(); i += 2) {
      const auto first = at(bounds[i]), middle = at(bounds[i + 1]), last = at(bounds[i + 2]);
      const auto from = std::upper_bound(first, middle, *middle, before);
      const auto to = std::lower_bound(middle, last, *(middle - 1), before);
      std::inplace_merge(from, middle, to, before);
      merged.push_back(bounds[i + 2]);
    }
    if (merged.back() != v.size()) merged.push_back(v.size());
    bounds.swap(merged);
  }
}

}  // namespace tracesmith::analysis
