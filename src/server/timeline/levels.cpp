#include "server/timeline/levels.hpp"

#include <algorithm>

namespace tracesmith::server {
namespace {

constexpr size_t kSpans = 8192, kKept = 256;

}  // namespace

size_t Levels::of(int64_t ts, int64_t dur) {
  size_t level = 0;
  while (level < ends_.size() && ends_[level] > ts) ++level;
  if (level == ends_.size()) ends_.push_back(0);
  ends_[level] = ts + dur;
  return level;
}

void DepthCounter::add(int64_t ts, int64_t dur) {
  spans_.push_back({ts, dur});
  if (spans_.size() >= kSpans) shrink();
}

void DepthCounter::take(const DepthCounter& other) {
  depth_ = std::max(depth_, other.depth_);
  spans_.insert(spans_.end(), other.spans_.begin(), other.spans_.end());
  if (spans_.size() >= kSpans) shrink();
}

uint32_t DepthCounter::depth() {
  measure();
  return depth_;
}

void DepthCounter::measure() {
  auto before = [](const Span& a, const Span& b) { return a.ts != b.ts ? a.ts < b.ts : a.dur > b.dur; };
  if (!std::is_sorted(spans_.begin(), spans_.end(), before)) std::sort(spans_.begin(), spans_.end(), before);
  Levels levels;
  for (const Span& s : spans_) depth_ = std::max(depth_, static_cast<uint32_t>(levels.of(s.ts, s.dur) + 1));
}

void DepthCounter::shrink() {
  measure();
  std::nth_element(spans_.begin(), spans_.begin() + kKept, spans_.end(),
                   [](const Span& a, const Span& b) { return a.dur > b.dur; });
  spans_.resize(kKept);
}

}  // namespace tracesmith::server
