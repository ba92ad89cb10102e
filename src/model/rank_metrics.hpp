// What the ranks of a job are at, for Prometheus.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/prometheus.hpp"
#include "model/rate.hpp"

namespace tracesmith::model {

struct RankNow {
  std::string labels;  ///< of rankLabels(), perhaps with others before
  std::optional<int64_t> step, step_age_ns;
  Rates rates;
};

/// Which process: two jobs on a node, or two roles, may have the same ranks. `rank`: -1 if it has none.
std::string rankLabels(int64_t pid, int32_t rank, const std::string& role, bool simulated);
/// Names without a value are left out.
void addRankMetrics(PrometheusText& text, const std::vector<RankNow>& ranks);

}  // namespace tracesmith::model
