// Sets of time as sorted, disjoint intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tracesmith::analysis {

struct Interval {
  int64_t from, to;
};

/// A union that grows by intervals in the order of their start. An interval that touches the last one joins it.
class Union {
 public:
  void add(int64_t from, int64_t to) {
    if (parts_.empty() || from > parts_.back().to)
      parts_.push_back({from, to});
    else
      parts_.back().to = std::max(parts_.back().to, to);
  }
  const std::vector<Interval>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  int64_t length() const {
    int64_t sum = 0;
    for (const Interval& i : parts_) sum += i.to - i.from;
    return sum;
  }
  void clear() { parts_.clear(); }

 private:
  std::vector<Interval> parts_;
};

/// Length of what two unions have in common.
inline int64_t commonLength(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<int64_t>(0, std::min(a[i].to, b[j].to) - std::max(a[i].from, b[j].from));
    (a[i].to < b[j].to ? i : j)++;
  }
  return sum;
}

/// Calls visit(mask, from, to) for every stretch covered by at least one of the unions; bit u of mask stands for union
/// u.
template <typename Visit>
void sweep(const std::vector<const std::vector<Interval>*>& unions, Visit visit) {
  struct Cursor {
    const Interval *at, *end;
    unsigned bit;
  };
  std::vector<Cursor> cursors;
  for (size_t u = 0; u < unions.size(); ++u)
    if (!unions[u]->empty()) cursors.push_back({unions[u]->data(), unions[u]->data() + unions[u]->size(), 1u << u});
  int64_t now = INT64_MIN;
  while (!cursors.empty()) {
    unsigned mask = 0;
    int64_t next = INT64_MAX;
    bool ended = false;
    for (Cursor& c : cursors) {
      while (c.at != c.end && c.at->to <= now) ++c.at;
      if (c.at == c.end) {
        ended = true;
        continue;
      }
      const bool inside = c.at->from <= now;
      mask |= inside ? c.bit : 0;
      next = std::min(next, inside ? c.at->to : c.at->from);
    }
    if (mask) visit(mask, now, next);
    now = next;
    if (ended) std::erase_if(cursors, [](const Cursor& c) { return c.at == c.end; });
  }
}

}  // namespace tracesmith::analysis
