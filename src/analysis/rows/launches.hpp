// Finds the call that launched something, by correlation id, within one process.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/rows/rank_rows.hpp"

namespace tracesmith::analysis {

/// Of several calls with one id the last counts. The calls must stay where they are.
class Launches {
 public:
  explicit Launches(const RankRows& rows);
  const HostCall* find(int64_t correlation) const {
    if (dense_) {
      const uint64_t at = static_cast<uint64_t>(correlation) - static_cast<uint64_t>(low_);
      return at < array_.size() && array_[at] ? &calls_[array_[at] - 1] : nullptr;
    }
    auto it = map_.find(correlation);
    return it == map_.end() ? nullptr : &calls_[it->second];
  }

 private:
  const HostCall* calls_;
  bool dense_ = false;
  int64_t low_ = 0;
  std::vector<uint32_t> array_;  // 1 + index of the call
  std::unordered_map<int64_t, uint32_t> map_;
};

}  // namespace tracesmith::analysis
