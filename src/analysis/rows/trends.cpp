#include "analysis/rows/trends.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.hpp"

namespace tracesmith::analysis {
namespace {

constexpr double kLeastNoise = 1e-4;
constexpr double kLeastChange = 0.015;  // of a value to count as another level
constexpr double kSureChange = 6;       // standard errors

}  // namespace

double noiseOf(const std::vector<std::vector<double>>& rows) {
  // Differences of neighbours: levels and slow changes do not count as noise.
  std::vector<double> steps;
  for (const std::vector<double>& row : rows)
    for (size_t i = 1; i < row.size(); ++i)
      if (!std::isnan(row[i]) && !std::isnan(row[i - 1])) steps.push_back(std::abs(row[i] - row[i - 1]));
  return steps.empty() ? std::nan("") : std::max(kLeastNoise, median(std::move(steps)) * 1.4826 / std::sqrt(2));
}

Trend trendOfOne(const std::vector<double>& values, double noise) {
  std::vector<double> v;
  std::vector<size_t> column;
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i])) {
      v.push_back(values[i]);
      column.push_back(i);
    }
  Trend out;
  const size_t n = v.size();
  out.points = n;
  if (n == 0) return out;
  std::vector<double> sum(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + v[i];
  if (std::isnan(noise)) noise = kLeastChange;
  out.excess = sum[n] / static_cast<double>(n);
  out.sureness = out.excess / (noise / std::sqrt(static_cast<double>(n)));
  double best = kSureChange;
  for (size_t k = 2; k + 2 <= n; ++k) {
    const double left = sum[k] / static_cast<double>(k), right = (sum[n] - sum[k]) / static_cast<double>(n - k);
    const double error = noise * std::sqrt(1.0 / static_cast<double>(k) + 1.0 / static_cast<double>(n - k));
    if (right - left < kLeastChange || (right - left) / error < best) continue;
    if (left > right / 2) continue;  // it was as high before: some steps more or less are no change
    best = (right - left) / error;
    out.changed = true;
    out.since = column[k];
    out.excess = right;
    out.sureness = right / (noise / std::sqrt(static_cast<double>(n - k)));
  }
  double squares = 0;
  const double mean = out.excess;
  size_t counted = 0;
  for (size_t i = 0; i < n; ++i)
    if (column[i] >= out.since) {
      squares += (v[i] - mean) * (v[i] - mean);
      ++counted;
    }
  out.steps = counted;
  out.spread = counted > 1 ? std::sqrt(squares / static_cast<double>(counted - 1)) / noise : 1;
  return out;
}

namespace {

/// A row that has nobody to be compared with, against what it was like before.
Trend ownPast(std::vector<double> values, bool ratio) {
  const double middle = median(values);
  Trend out;
  if (std::isnan(middle) || (ratio && middle <= 0)) return out;
  for (double& v : values) v = ratio ? v / middle - 1 : v - middle;
  const double noise = noiseOf({values});
  const Trend found = trendOfOne(values, noise);
  out.points = found.points;
  if (!found.changed) return out;
  double sums[2] = {}, counts[2] = {};
  for (size_t c = 0; c < values.size(); ++c)
    if (!std::isnan(values[c])) {
      sums[c >= found.since] += values[c];
      ++counts[c >= found.since];
    }
  const double before = sums[0] / counts[0], after = sums[1] / counts[1];
  out = found;
  out.excess = ratio ? (after - before) / (1 + before) : after - before;
  out.sureness = (after - before) / (noise * std::sqrt(1 / counts[0] + 1 / counts[1]));
  return out;
}

}  // namespace

namespace {

/// How far the others of a group lie from the middle of it, all along. `levels`: the median of each row. One other says
/// nothing: it is as far below as the row is above.
double scatterOf(const std::vector<size_t>& group, size_t left_out, const std::vector<double>& levels) {
  if (group.size() < 3) return 0;
  std::vector<double> away;
  for (size_t r : group)
    if (r != left_out) away.push_back(std::abs(levels[r]));
  return 1.4826 * median(std::move(away));
}

}  // namespace

std::vector<Trend> trendsOf(const Series& series, bool ratio, const std::vector<uint32_t>& groups,
                            double least_scatter) {
  const size_t rows = series.rows.size(), columns = rows ? series.rows[0].size() : 0;
  std::map<uint32_t, std::vector<size_t>> members;
  for (size_t r = 0; r < rows; ++r) members[groups.empty() ? 0 : groups[r]].push_back(r);
  std::vector<std::vector<double>> excess(rows, std::vector<double>(columns, std::nan("")));
  for (const auto& [group, own] : members)
    for (size_t c = 0; c < columns; ++c) {
      std::vector<double> values;
      for (size_t r : own) values.push_back(series.rows[r][c]);
      const double middle = median(values);
      for (size_t i = 0; i < own.size(); ++i) {
        // Of two alike, half-way between them is not what is usual.
        const double usual = own.size() == 2 ? values[1 - i] : middle;
        if (std::isnan(usual) || (ratio && usual <= 0)) continue;
        excess[own[i]][c] = ratio ? values[i] / usual - 1 : values[i] - usual;
      }
    }
  const double noise = noiseOf(excess);
  std::vector<double> levels;
  for (const std::vector<double>& row : excess) levels.push_back(median(row));
  std::vector<Trend> out;
  for (size_t r = 0; r < rows; ++r) {
    const std::vector<size_t>& own = members[groups.empty() ? 0 : groups[r]];
    const bool alone = members.size() > 1 && own.size() == 1;
    Trend t = alone ? ownPast(series.rows[r], ratio) : trendOfOne(excess[r], noise);
    if (!alone && !std::isnan(least_scatter) && t.steps > 0) {
      const double by_step = noise * std::max(1.0, t.spread) / std::sqrt(static_cast<double>(t.steps));
      t.sureness =
          std::min(t.sureness, t.excess / std::hypot(by_step, std::max(least_scatter, scatterOf(own, r, levels))));
    }
    out.push_back(t);
  }
  return out;
}

}  // namespace tracesmith::analysis
