// Metrics over time: of the last hour from what nodes report, of a trace from its table.
#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/each_row.hpp"
#include "base/text.hpp"
#include "hardware/metrics.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"

namespace tracesmith::server {
namespace {

std::string unitOf(std::string_view name) {
  const bool rate = name.ends_with("_per_second");
  if (rate) name.remove_suffix(std::string_view("_per_second").size());
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

Result<MetricSeries> seriesOf(OpenTrace& trace, const SeriesQuery& q) {
  const Timeline& t = trace.timeline();
  struct Sample {
    int64_t t;
    double value;
  };
  std::map<std::tuple<std::string, int64_t, std::string>, std::vector<Sample>> lines;
  using namespace trace::metrics;
  int64_t low = INT64_MAX, high = INT64_MIN;
  std::map<int64_t, bool> wanted;
  std::map<int64_t, const std::vector<analysis::ClockSegment>*> clocks;
  Status read = analysis::eachRow<trace::MetricRow>(
      t.reader(), t.names(), {ts, node, device, name, value, part}, [&](const trace::MetricRow& r, const auto&) {
        auto textOf = [&](int64_t slot) {
          return slot == trace::kNull ? std::string() : std::string(t.names().text(static_cast<uint32_t>(slot)));
        };
        auto [is, added] = wanted.try_emplace(r.name, false);
        if (added) is->second = textOf(r.name) == q.metric;
        if (!is->second || r.ts == trace::kNull || r.value == trace::kNull) return;
        const int64_t gpu = r.device == trace::kNull ? -1 : r.device;
        if (!q.gpus.empty() && std::find(q.gpus.begin(), q.gpus.end(), gpu) == q.gpus.end()) return;
        const std::string where = textOf(r.node);
        if (!q.nodes.empty() && std::find(q.nodes.begin(), q.nodes.end(), where) == q.nodes.end()) return;
        auto [clock, fresh] = clocks.try_emplace(r.node, nullptr);
        if (fresh) clock->second = t.clocks().find(where);
        const int64_t at = analysis::ClockModels::toReference(clock->second, r.ts);
        if (at < q.from || at > q.to) return;
        lines[{where, gpu, textOf(r.part)}].push_back({at, std::bit_cast<double>(r.value)});
        low = std::min(low, at);
        high = std::max(high, at);
      });
  if (!read) return read;
  MetricSeries out;
  if (lines.empty()) return out;
  size_t most = 1;
  for (const auto& [key, samples] : lines) most = std::max(most, samples.size());
  const double span_ms = std::max(1e-3, static_cast<double>(high - low) / 1e6);
  out.step_ms =
      std::max(span_ms / static_cast<double>(std::max<size_t>(1, most - 1)), span_ms / static_cast<double>(q.points));
  out.t0 = low - static_cast<int64_t>(out.step_ms * 5e5);
  out.points = static_cast<size_t>(span_ms / out.step_ms) + 2;
  for (const auto& [key, samples] : lines) {
    Binned bins(out.t0, out.step_ms, out.points);
    for (const Sample& s : samples) bins.add(s.t, s.value);
    const auto& [where, gpu, which] = key;
    out.lines.push_back({where, gpu, which, bins.means()});
  }
  return out;
}

}  // namespace

Answer App::metricNames(const Request& r) {
  std::set<std::string> names;
  if (!cluster() || !r.get("trace").empty()) {
    Answer instead;
    TracePtr trace = traceOf(cluster() ? r.get("trace") : "file", instead);
    if (!trace) return instead;
    Timeline& t = trace->timeline();
    std::set<int64_t> seen;
    (void)analysis::eachRow<trace::MetricRow>(t.reader(), t.names(), {trace::metrics::name},
                                              [&](const trace::MetricRow& row, const auto&) { seen.insert(row.name); });
    for (int64_t n : seen)
      if (n != trace::kNull) names.insert(std::string(t.names().text(static_cast<uint32_t>(n))));
  } else {
    std::lock_guard lock(live_mutex_);
    for (const cluster::LiveNode& node : live_.nodes)
      for (const analysis::live::GpuState& gpu : node.report.gpus)
        for (const analysis::live::Metric& m : gpu.metrics) names.insert(m.name);
  }
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("metrics").beginArray();
  for (const std::string& n : names) w.beginObject().field("name", n).field("unit", unitOf(n)).endObject();
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::metricSeries(const Request& r) {
  SeriesQuery q;
  q.metric = r.get("metric");
  if (q.metric.empty()) return Answer::error(400, "say which metric: /api/v1/metrics/names lists them");
  q.nodes = split(r.get("node"));
  for (const std::string& g : split(r.get("gpu")))
    if (!parseRange(g, -1, 1 << 20, q.gpus.emplace_back())) return Answer::error(400, "'gpu' is a list of numbers");
  int64_t points = 1000;
  if (r.query.contains("points") && !parseRange(r.get("points"), 2, 100000, points))
    return Answer::error(400, "'points' is a number from 2 to 100000");
  q.points = static_cast<size_t>(points);
  if (r.query.contains("from") && !parseRange(r.get("from"), INT64_MIN, INT64_MAX, q.from))
    return Answer::error(400, "'from' is a time in ns");
  if (r.query.contains("to") && !parseRange(r.get("to"), INT64_MIN, INT64_MAX, q.to))
    return Answer::error(400, "'to' is a time in ns");
  MetricSeries series;
  if (!cluster() || !r.get("trace").empty()) {
    Answer instead;
    TracePtr trace = traceOf(cluster() ? r.get("trace") : "file", instead);
    if (!trace) return instead;
    Result<MetricSeries> of = seriesOf(*trace, q);
    if (!of) return Answer::error(of.status());
    series = std::move(*of);
  } else {
    series = history_.series(q);
  }
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("metric", q.metric).field("unit", unitOf(q.metric));
  timeField(w, "t0", series.t0).field("step_ms", series.step_ms).key("times").beginArray();
  for (size_t i = 0; i < series.points; ++i)
    w.value(static_cast<int64_t>(std::llround((static_cast<double>(i) + 0.5) * series.step_ms)));
  w.endArray().key("series").beginArray();
  for (const MetricSeries::Line& line : series.lines) {
    w.beginObject().field("node", line.node).key("index");
    line.index < 0 ? w.null() : w.value(line.index);
    w.field("name", line.name).key("values").beginArray();
    for (double v : line.values) w.value(v);  // NaN becomes null
    w.endArray().endObject();
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

}  // namespace tracesmith::server
