#include "trace/import/open_spans.hpp"

#include <algorithm>

namespace tracesmith::trace {
namespace {
constexpr size_t kMaxSpans = 100'000;
constexpr size_t kMaxBytes = 16u << 20;
}  // namespace

bool OpenSpans::open(const std::string& key, OpenSpan span) {
  size_t bytes = span.members.size() + key.size();
  if (count_ >= kMaxSpans || bytes_ + bytes > kMaxBytes) return false;
  ++count_;
  bytes_ += bytes;
  spans_[key].push_back(std::move(span));
  return true;
}

bool OpenSpans::close(const std::string& key, OpenSpan& span) {
  auto it = spans_.find(key);
  if (it == spans_.end()) return false;
  span = std::move(it->second.back());
  it->second.pop_back();
  --count_;
  bytes_ -= span.members.size() + key.size();
  if (it->second.empty()) spans_.erase(it);
  return true;
}

void OpenSpans::drain(const std::function<void(OpenSpan&)>& take) {
  std::vector<OpenSpan> all;
  for (auto& [key, stack] : spans_)
    for (OpenSpan& span : stack) all.push_back(std::move(span));
  std::stable_sort(all.begin(), all.end(), [](const OpenSpan& a, const OpenSpan& b) { return a.row.ts < b.row.ts; });
  for (OpenSpan& span : all) take(span);
  spans_.clear();
  count_ = bytes_ = 0;
}

}  // namespace tracesmith::trace
