#include "server/sources/trace_metrics.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/natural_order.hpp"
#include "hardware/metrics.hpp"
#include "trace/rows.hpp"

namespace tracesmith::server {
namespace {

using trace::kNull;
namespace col = trace::metrics;

constexpr size_t kDistances = 200'000;  // of samples, to see how far they are apart
constexpr size_t kKept = 6;             // metrics: 512 GPUs × 1 h at 1 Hz take 30 MB each

bool isCounter(std::string_view name) {
  for (const hardware::MetricInfo& m : hardware::metrics())
    if (m.name == name) return m.kind == hardware::MetricKind::counter;
  return false;
}

}  // namespace

std::set<std::string> TraceMetrics::names() {
  std::lock_guard lock(mutex_);
  if (names_known_) return names_;
  const trace::NameNumbers& names = timeline_.names();
  std::vector<bool> seen(names.size());
  trace::RowCursor<trace::MetricRow> rows(timeline_.reader(), {col::name}, {}, &names);
  while (rows.next())
    if (rows.row().name != kNull) seen[static_cast<size_t>(rows.row().name)] = true;
  for (uint32_t n = 0; n < seen.size(); ++n)
    if (seen[n]) {
      std::string name(names.text(n));
      if (isCounter(name)) name += kPerSecond;
      names_.insert(std::move(name));
    }
  names_known_ = true;
  return names_;
}

/// Of a counter what it grew by a second; where it began anew, nothing.
std::vector<TraceMetrics::Sample> TraceMetrics::rates(const std::vector<Sample>& totals) {
  std::vector<Sample> out;
  for (size_t i = 1; i < totals.size(); ++i) {
    const int64_t ns = totals[i].t - totals[i - 1].t;
    const double grown = totals[i].value - totals[i - 1].value;
    if (ns > 0 && grown >= 0) out.push_back({totals[i].t, grown * 1e9 / static_cast<double>(ns)});
  }
  return out;
}

/// Goes through the whole table: its blocks hold all metrics of some time.
Result<TraceMetrics::MetricPtr> TraceMetrics::load(const std::string& wanted) const {
  const trace::NameNumbers& names = timeline_.names();
  auto metric = std::make_shared<Metric>();
  metric->name = wanted;
  std::string_view stored = wanted;
  if (stored.ends_with(kPerSecond) && isCounter(stored.substr(0, stored.size() - kPerSecond.size())))
    stored.remove_suffix(kPerSecond.size());
  struct Key {
    uint32_t node, part;
    int64_t gpu;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      return ((k.node * 0x9E3779B97F4A7C15ull) ^ static_cast<uint64_t>(k.gpu)) * 0xBF58476D1CE4E5B9ull >> 16 ^ k.part;
    }
  };
  std::unordered_map<Key, size_t, Hash> line_of;
  std::vector<const trace::ClockTable*> clocks;
  int64_t wanted_name = kNull;
  for (uint32_t n = 0; n < names.size() && wanted_name == kNull; ++n)
    if (names.text(n) == stored) wanted_name = n;
  trace::RowCursor<trace::MetricRow> rows(
      timeline_.reader(), {col::ts, col::node, col::device, col::name, col::value, col::part}, {}, &names);
  auto number = [](int64_t slot) { return slot == kNull ? trace::kNoName : static_cast<uint32_t>(slot); };
  while (wanted_name != kNull && rows.next()) {
    const trace::MetricRow& row = rows.row();
    if (row.name != wanted_name || row.ts == kNull || row.value == kNull) continue;
    const Key key{number(row.node), number(row.part), row.device == kNull ? -1 : row.device};
    auto [it, added] = line_of.try_emplace(key, metric->lines.size());
    if (added) {
      metric->lines.push_back({std::string(names.text(key.node)), std::string(names.text(key.part)), key.gpu, {}});
      clocks.push_back(&clockOf(timeline_.clocks(), metric->lines.back().node));
    }
    metric->lines[it->second].samples.push_back(
        {clocks[it->second]->toReference(row.ts), std::bit_cast<double>(row.value)});
  }
  auto earlier = [](const Sample& a, const Sample& b) { return a.t < b.t; };
  for (Line& line : metric->lines)
    if (!std::is_sorted(line.samples.begin(), line.samples.end(), earlier))
      std::sort(line.samples.begin(), line.samples.end(), earlier);
  if (stored != wanted)
    for (Line& line : metric->lines) line.samples = rates(line.samples);
  std::sort(metric->lines.begin(), metric->lines.end(), [](const Line& a, const Line& b) {
    if (const int order = naturalOrder(a.node, b.node); order != 0) return order < 0;
    return std::tie(a.gpu, a.part) < std::tie(b.gpu, b.part);
  });
  return MetricPtr(std::move(metric));
}

Result<TraceMetrics::MetricPtr> TraceMetrics::metric(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto it = std::find_if(recent_.begin(), recent_.end(), [&](const MetricPtr& m) { return m->name == name; });
  if (it != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, it);
    return recent_.front();
  }
  Result<MetricPtr> loaded = load(name);
  if (!loaded) return loaded.status();
  recent_.push_front(*loaded);
  if (recent_.size() > kKept) recent_.pop_back();
  return *loaded;
}

Result<model::MetricSeries> TraceMetrics::series(const SeriesQuery& q) {
  Result<MetricPtr> found = metric(q.metric);
  if (!found) return found.status();
  struct Part {
    const Line* line;
    std::vector<Sample>::const_iterator first, last;
  };
  std::vector<Part> parts;
  int64_t low = INT64_MAX, high = INT64_MIN;
  std::vector<int64_t> distances;
  for (const Line& line : (*found)->lines) {
    if (!q.gpus.empty() && std::find(q.gpus.begin(), q.gpus.end(), line.gpu) == q.gpus.end()) continue;
    if (!q.nodes.empty() && std::find(q.nodes.begin(), q.nodes.end(), line.node) == q.nodes.end()) continue;
    const auto& s = line.samples;
    const auto first = std::lower_bound(s.begin(), s.end(), q.from, [](const Sample& a, int64_t t) { return a.t < t; });
    const auto last = std::upper_bound(first, s.end(), q.to, [](int64_t t, const Sample& a) { return t < a.t; });
    if (first == last) continue;
    low = std::min(low, first->t);
    high = std::max(high, std::prev(last)->t);
    for (auto at = first; std::next(at) != last && distances.size() < kDistances; ++at)
      distances.push_back(std::next(at)->t - at->t);
    parts.push_back({&line, first, last});
  }
  model::MetricSeries out;
  if (parts.empty()) return out;
  const double span_ms = std::max(1e-3, static_cast<double>(high - low) / 1e6);
  const int64_t period = samplePeriod(std::move(distances));
  out.step_ms =
      std::max(period > 0 ? static_cast<double>(period) / 1e6 : span_ms, span_ms / static_cast<double>(q.points));
  setTimes(out, low, static_cast<size_t>(span_ms / out.step_ms) + 2);
  for (const Part& p : parts) {
    Binned bins(out, isBits(q.metric));
    for (auto s = p.first; s != p.last; ++s) bins.add(s->t, s->value);
    const std::optional<int64_t> gpu = p.line->gpu < 0 ? std::nullopt : std::optional(p.line->gpu);
    out.series.push_back({p.line->node, gpu, p.line->part, bins.means()});
  }
  return out;
}

}  // namespace tracesmith::server
