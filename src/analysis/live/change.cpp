#include "analysis/live/change.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tracesmith::analysis::live {
namespace {

constexpr size_t kLast = 3, kLeastBefore = 10, kMostBefore = 60;
constexpr double kDeviations = 8;

double median(std::vector<double>& values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<Change> ChangeDetector::add(double value, int64_t t_ns) {
  values_.push_back({value, t_ns});
  if (values_.size() > kMostBefore + kLast) values_.pop_front();
  if (values_.size() < kLeastBefore + kLast) return {};
  std::vector<double> before, distance;
  for (size_t i = 0; i + kLast < values_.size(); ++i) before.push_back(values_[i].value);
  const double usual = median(before);
  for (double v : before) distance.push_back(std::abs(v - usual));
  const double deviation = 1.4826 * median(distance);
  const double least = std::max(relative_ ? least_ * std::abs(usual) : least_, kDeviations * deviation);
  std::vector<double> last;
  for (size_t i = values_.size() - kLast; i < values_.size(); ++i) last.push_back(values_[i].value - usual);
  const bool larger = *std::min_element(last.begin(), last.end()) > least;
  const bool smaller = *std::max_element(last.begin(), last.end()) < -least;
  if (!larger && !smaller) return {};
  const Change change{values_[values_.size() - kLast].t_ns, usual, usual + median(last)};
  values_.erase(values_.begin(), values_.end() - static_cast<std::ptrdiff_t>(kLast));  // the new normal
  if (smaller) return {};
  return change;
}

}  // namespace tracesmith::analysis::live
