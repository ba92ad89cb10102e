// What the ranks of a job are at, as metrics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/metric_set.hpp"
#include "model/rate.hpp"

namespace tracesmith::model {

struct RankNow {
  MetricLabels labels;  ///< of rankLabels(), perhaps with others before
  std::optional<int64_t> step, step_age_ns;
  Rates rates;
};

/// Which process: two jobs on a node, or two roles, may have the same ranks. `rank`: -1 if it has none.
MetricLabels rankLabels(int64_t pid, int32_t rank, const std::string& role, bool simulated);
/// Names without a value are left out.
void addRankMetrics(MetricSet& metrics, const std::vector<RankNow>& ranks);

}  // namespace tracesmith::model
