#include "model/rank_metrics.hpp"

namespace tracesmith::model {
namespace {

template <typename Get>
void add(MetricSet& metrics, const std::vector<RankNow>& ranks, const char* name, const char* help, Get get) {
  bool begun = false;
  for (const RankNow& r : ranks) {
    const std::optional<double> value = get(r);
    if (!value) continue;
    if (!begun) metrics.begin(std::string("tracesmith_") + name, MetricType::gauge, help);
    begun = true;
    metrics.value(r.labels, *value);
  }
}

std::optional<double> scaled(std::optional<double> value, double by) {
  return value ? std::optional(*value * by) : std::nullopt;
}

}  // namespace

MetricLabels rankLabels(int64_t pid, int32_t rank, const std::string& role, bool simulated) {
  MetricLabels labels = {{"pid", std::to_string(pid)}};
  if (rank >= 0) labels.emplace_back("rank", std::to_string(rank));
  if (!role.empty()) labels.emplace_back("role", role);
  if (simulated) labels.emplace_back("simulated", "true");
  return labels;
}

void addRankMetrics(MetricSet& metrics, const std::vector<RankNow>& ranks) {
  add(metrics, ranks, "rank_step", "step that the rank is in", [](const RankNow& r) { return scaled(r.step, 1); });
  add(metrics, ranks, "rank_step_age_seconds", "time since that step began",
      [](const RankNow& r) { return scaled(r.step_age_ns, 1e-9); });
  for (const RateInfo& rate : kRates)
    add(metrics, ranks, rate.metric, rate.help,
        [&rate](const RankNow& r) { return scaled(r.rates.*rate.value, rate.scale); });
}

}  // namespace tracesmith::model
