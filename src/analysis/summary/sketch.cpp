#include "analysis/summary/sketch.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace tracesmith::analysis {

int Sketch::bucketOf(int64_t ns) {
  return ns <= 1 ? 0 : static_cast<int>(std::floor(kPerOctave * std::log2(static_cast<double>(ns))));
}

double Sketch::lengthOf(int bucket) { return std::exp2((bucket + 0.5) / kPerOctave); }

void Sketch::add(const Sketch& other) {
  for (const auto& [bucket, n] : other.counts_) counts_[bucket] += n;
}

uint64_t Sketch::count() const {
  uint64_t sum = 0;
  for (const auto& [bucket, n] : counts_) sum += n;
  return sum;
}

double Sketch::quantile(double part) const {
  const double wanted = part * static_cast<double>(count());
  double sum = 0;
  for (const auto& [bucket, n] : counts_)
    if ((sum += static_cast<double>(n)) >= wanted) return lengthOf(bucket);
  return 0;
}

std::string Sketch::text() const {
  std::string out;
  if (counts_.size() < 2) return out;
  for (const auto& [bucket, n] : counts_)
    out += (out.empty() ? "" : " ") + std::to_string(bucket) + ":" + std::to_string(n);
  return out;
}

Sketch Sketch::parse(std::string_view text) {
  Sketch out;
  while (!text.empty()) {
    const std::string_view cell = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), cell.size() + 1));
    const size_t colon = cell.find(':');
    int64_t bucket, n;
    if (colon == cell.npos || !parseInt(cell.substr(0, colon), bucket) || !parseInt(cell.substr(colon + 1), n))
      continue;
    if (bucket >= 0 && bucket < 64 * kPerOctave && n > 0)
      out.counts_[static_cast<int>(bucket)] += static_cast<uint64_t>(n);
  }
  return out;
}

}  // namespace tracesmith::analysis
