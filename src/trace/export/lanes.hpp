// Slices of one track either nest or follow one another; those that overlap otherwise need another lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracesmith::trace {

/// Places slices, which must come in the order of TimeOrder (by start, the longest first), into as few lanes as are
/// needed.
class Lanes {
 public:
  /// Lane of the slice [start, end). Before, close(lane, end) is called for every slice of that lane that ended by
  /// then.
  template <typename Close>
  size_t place(int64_t start, int64_t end, Close close) {
    for (size_t lane = 0;; ++lane) {
      if (lane == open_.size()) open_.emplace_back();
      std::vector<int64_t>& open = open_[lane];
      closeUntil(lane, start, close);
      if (!open.empty() && open.back() < end) continue;  // would stick out of the slice it began in
      open.push_back(end);
      return lane;
    }
  }

  /// Closes all that is open.
  template <typename Close>
  void finish(Close close) {
    for (size_t lane = 0; lane < open_.size(); ++lane) closeUntil(lane, INT64_MAX, close);
  }

 private:
  template <typename Close>
  void closeUntil(size_t lane, int64_t now, Close& close) {
    std::vector<int64_t>& open = open_[lane];
    for (; !open.empty() && open.back() <= now; open.pop_back()) close(lane, open.back());
  }

  std::vector<std::vector<int64_t>> open_;  // ends of the slices that are open, by lane, outermost first
};

}  // namespace tracesmith::trace
