// Metrics over time: of the last hour from what nodes report, of a trace from its table.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "hardware/metrics.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"

namespace tracesmith::server {
namespace {

std::string unitOf(std::string_view name) {
  const bool rate = name.ends_with(kPerSecond);
  if (rate) name.remove_suffix(kPerSecond.size());
  if (name == "gpu_memory_used_percent") return "%";
  for (const hardware::MetricInfo& m : hardware::metrics())
    if (m.name == name) return rate ? m.unit + "/s" : m.unit;
  return "";
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

class MetricHandlers final : public Handlers {
 public:
  explicit MetricHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer metricNames(const Request& r);
  Answer metricSeries(const Request& r);

  const Sources& sources_;
};

std::vector<Route> MetricHandlers::routes() {
  return {
      {"GET",
       "/api/v1/metrics/names",
       kViewer,
       "Names of the metrics",
       {kTrace},
       bind(this, &MetricHandlers::metricNames)},
      {"GET",
       "/api/v1/metrics/series",
       kViewer,
       "A metric over time: the last hour, or from a trace",
       {{"metric", "string", true, "name"},
        {"node", "string", false, "nodes, separated by commas"},
        {"gpu", "string", false, "GPU indexes, separated by commas"},
        {"from", "string", false, "Unix ns"},
        {"to", "string", false, "Unix ns"},
        {"points", "integer", false, "at most, 1000"},
        kTrace},
       bind(this, &MetricHandlers::metricSeries)},
  };
}

Answer MetricHandlers::metricNames(const Request& r) {
  std::set<std::string> names;
  if (!sources_.cluster || !r.get("trace").empty()) {
    Answer instead;
    TracePtr trace =
        traceOf(sources_.traces, sources_.cluster || !r.get("trace").empty() ? r.get("trace") : "file", instead);
    if (!trace) return instead;
    names = trace->metrics().names();
  } else {
    const auto state = sources_.live.now();
    for (const cluster::LiveNode& node : state->live.nodes)
      for (const model::GpuState& gpu : node.report.gpus)
        for (const model::Metric& m : gpu.metrics) names.insert(m.name);
  }
  model::MetricNames answer;
  for (const std::string& n : names) answer.metrics.push_back({n, unitOf(n)});
  return Answer::json(model::toJson(answer));
}

Answer MetricHandlers::metricSeries(const Request& r) {
  SeriesQuery q;
  q.metric = r.get("metric");
  if (q.metric.empty()) return Answer::error(400, "no metric given: /api/v1/metrics/names lists them");
  q.nodes = split(r.get("node"));
  for (const std::string& g : split(r.get("gpu")))
    if (!parseRange(g, -1, 1 << 20, q.gpus.emplace_back()))
      return Answer::error(400, "'gpu' must be a list of numbers");
  int64_t points = 1000;
  if (r.query.contains("points") && !parseRange(r.get("points"), 2, 100000, points))
    return Answer::error(400, "'points' must be a number from 2 to 100000");
  q.points = static_cast<size_t>(points);
  if (r.query.contains("from") && !parseRange(r.get("from"), INT64_MIN, INT64_MAX, q.from))
    return Answer::error(400, "'from' must be a time in ns");
  if (r.query.contains("to") && !parseRange(r.get("to"), INT64_MIN, INT64_MAX, q.to))
    return Answer::error(400, "'to' must be a time in ns");
  model::MetricSeries series;
  if (!sources_.cluster || !r.get("trace").empty()) {
    Answer instead;
    TracePtr trace =
        traceOf(sources_.traces, sources_.cluster || !r.get("trace").empty() ? r.get("trace") : "file", instead);
    if (!trace) return instead;
    Result<model::MetricSeries> of = trace->metrics().series(q);
    if (!of) return Answer::error(of.status());
    series = std::move(*of);
  } else {
    series = sources_.live.series(q);
  }
  series.metric = q.metric;
  series.unit = unitOf(q.metric);
  return Answer::json(model::toJson(series));
}

}  // namespace

std::unique_ptr<Handlers> makeMetricHandlers(const Sources& sources) {
  return std::make_unique<MetricHandlers>(sources);
}

}  // namespace tracesmith::server
