// Series of one value per rank and step, and whether a rank or group stands out: always, or since a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tracesmith::analysis {

/// Values of a row per subject (rank, link) and a column per step; NaN: not measured.
struct Series {
  std::vector<std::vector<double>> rows;
};

struct Trend {
  double excess = 0;     ///< over the peers, as a part of 1
  double sureness = 0;   ///< excess in standard errors
  size_t since = 0;      ///< first column of the excess; 0: all along
  bool changed = false;  ///< it was not so before `since`
  double spread = 0;     ///< how much it varies from step to step, beyond what is usual
  size_t points = 0;
  size_t steps = 0;  ///< of those, since `since`
};

/// For each row: how far it lies above the median row of its group, column by column; above the other one where there
/// are two. With `ratio` the values are relative (1.05 is 5 % more), else absolute parts. `groups`: by row; empty: all
/// rows are alike. A row without others of its group is held against its own past: only a change counts.
/// `least_scatter`: rows differ all along by so much, and by more where the others do; that and single steps that stand
/// out make an excess less sure. NaN: rows are alike but for what varies from step to step.
std::vector<Trend> trendsOf(const Series& series, bool ratio, const std::vector<uint32_t>& groups = {},
                            double least_scatter = std::numeric_limits<double>::quiet_NaN());
/// One series against its own past: only a change counts.
Trend trendOfOne(const std::vector<double>& values, double noise);
/// Usual deviation of a value from the mean of its row.
double noiseOf(const std::vector<std::vector<double>>& rows);

}  // namespace tracesmith::analysis
