#include "analysis/rows/launches.hpp"

#include <algorithm>

namespace tracesmith::analysis {

Launches::Launches(const RankRows& rows) : calls_(rows.calls.data()) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (const HostCall& call : rows.calls) {
    low = std::min(low, call.correlation);
    high = std::max(high, call.correlation);
  }
  const auto n = static_cast<uint32_t>(rows.calls.size());
  dense_ = n > 0 && static_cast<uint64_t>(high) - static_cast<uint64_t>(low) < 8ull * n + 1024;
  if (dense_) {
    low_ = low;
    array_.resize(static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1);
    for (uint32_t i = 0; i < n; ++i) array_[static_cast<size_t>(calls_[i].correlation - low)] = i + 1;
  } else {
    map_.reserve(n);
    for (uint32_t i = 0; i < n; ++i) map_[calls_[i].correlation] = i;
  }
}

}  // namespace tracesmith::analysis
