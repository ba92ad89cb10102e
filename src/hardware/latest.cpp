#include "hardware/latest.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"

namespace tracesmith::hardware {
namespace {

// Devices that have a row of their own in the columns; beyond, values are kept like those of parts.
constexpr int32_t kMostDevices = 1 << 20;

double perSecond(const Latest::Point& now, const Latest::Point& before) {
  if (before.ts_ns == 0 || now.ts_ns <= before.ts_ns) return 0;
  return (now.value - before.value) / (static_cast<double>(now.ts_ns - before.ts_ns) * 1e-9);
}

/// The number of a metric of metrics.def; count: it is not one of them.
size_t numberOf(const MetricInfo* metric) {
  const std::span<const MetricInfo> all = metrics();
  return metric >= all.data() && metric < all.data() + all.size() ? static_cast<size_t>(metric - all.data())
                                                                  : static_cast<size_t>(Metric::count);
}

}  // namespace

double Latest::Value::rate() const { return perSecond({ts_ns, value}, {before_ns, before}); }

const Latest::Value* Latest::State::find(Metric metric, int32_t device, const std::string& part) const {
  for (const Value& v : values)
    if (v.metric == &metricInfo(metric) && v.device == device && v.part == part) return &v;
  return nullptr;
}

const std::vector<Latest::Point>& Latest::View::history(Metric metric, int32_t device) const {
  static const std::vector<Point> kNone;
  const std::vector<std::vector<Point>>& history = latest_.columns_[static_cast<size_t>(metric)].history;
  const auto row = static_cast<size_t>(device + 1);
  return row < history.size() ? history[row] : kNone;
}

Latest::Value Latest::valueOf(size_t metric, size_t row) const {
  const Column& column = columns_[metric];
  const Cell& cell = column.cells[row];
  Value v{};
  v.metric = &metrics()[metric];
  v.device = static_cast<int32_t>(row) - 1;
  v.ts_ns = cell.now.ts_ns;
  v.value = cell.now.value;
  v.before_ns = cell.before.ts_ns;
  v.before = cell.before.value;
  v.events = cell.events;
  if (row < column.history.size())
    for (const Point& p : column.history[row])
      if (!std::isnan(p.value)) v.history.push_back(p.value);
  return v;
}

Latest::State Latest::state() const {
  std::lock_guard lock(mutex_);
  State s;
  s.inventory = inventory_;
  s.costs = costs_;
  s.found = found_;
  for (size_t metric = 0; metric < columns_.size(); ++metric)
    for (size_t row = 0; row < columns_[metric].cells.size(); ++row)
      if (columns_[metric].cells[row].known()) s.values.push_back(valueOf(metric, row));
  for (const auto& [key, value] : values_) s.values.push_back(value);
  // As one list: by metric, then by device, the whole before its parts.
  std::stable_sort(s.values.begin(), s.values.end(), [](const Value& a, const Value& b) {
    return std::tie(a.metric, a.device, a.part) < std::tie(b.metric, b.device, b.part);
  });
  for (const auto& [source, gap] : gaps_) s.gaps.push_back(gap);
  return s;
}

void Latest::forget(int32_t device) {
  std::lock_guard lock(mutex_);
  const auto row = static_cast<size_t>(device + 1);
  for (Column& column : columns_) {
    if (row < column.cells.size()) column.cells[row] = {};
    if (row < column.history.size()) column.history[row].clear();
  }
}

void Latest::inventory(const Inventory& inventory) {
  std::lock_guard lock(mutex_);
  inventory_ = inventory;
  found_ = true;
}

/// Of a whole device. NaN says that the device does not support the metric: a value from before is gone.
void Latest::take(const Sample& s, Column& column, int64_t seen_ns) {
  const auto row = static_cast<size_t>(s.device + 1);
  if (row >= column.cells.size()) column.cells.resize(row + 1);
  Cell& cell = column.cells[row];
  if (std::isnan(s.value)) {
    cell = {};
  } else {
    cell.before = cell.now;
    cell.now = {s.ts_ns, s.value};
    cell.seen_ns = seen_ns;
    ++cell.events;
  }
  if (history_ == 0) return;
  if (row >= column.history.size()) column.history.resize(row + 1);
  std::vector<Point>& history = column.history[row];
  if (history.size() == history_) history.erase(history.begin());
  const bool counter = s.metric->kind == MetricKind::counter && cell.known();
  history.push_back({s.ts_ns, counter ? perSecond(cell.now, cell.before) : s.value});
}

/// Of a part.
void Latest::take(const Sample& s) {
  if (std::isnan(s.value)) return;  // not supported: not there
  auto [i, fresh] = values_.try_emplace({s.metric, s.device, std::string(s.part)});
  Value& v = i->second;
  if (fresh) {
    v.metric = s.metric;
    v.device = s.device;
    v.part = s.part;
  } else {
    v.before = v.value;
    v.before_ns = v.ts_ns;
  }
  v.value = s.value;
  v.ts_ns = s.ts_ns;
  ++v.events;
  if (history_ == 0) return;
  v.history.push_back(s.metric->kind == MetricKind::counter ? v.rate() : s.value);
  if (v.history.size() > history_) v.history.pop_front();
}

void Latest::samples(std::span<const Sample> samples) { this->samples(samples, rawClock()); }

void Latest::samples(std::span<const Sample> samples, int64_t seen_ns) {
  std::lock_guard lock(mutex_);
  for (const Sample& s : samples) {
    const size_t number = s.part.empty() ? numberOf(s.metric) : columns_.size();
    if (number < columns_.size() && s.device >= -1 && s.device < kMostDevices)
      take(s, columns_[number], seen_ns);
    else
      take(s);
  }
  // Processes that ended are not there any more. The next look is when there are twice as many values as remain.
  if (samples.empty() || values_.size() <= tidy_at_) return;
  std::erase_if(values_, [&](const auto& each) { return samples[0].ts_ns - each.second.ts_ns > 60'000'000'000; });
  tidy_at_ = std::max<size_t>(4096, 2 * values_.size());
}

void Latest::gap(const Gap& gap) {
  std::lock_guard lock(mutex_);
  if (gap.to_ns == 0)
    gaps_[gap.source] = gap;
  else
    gaps_.erase(gap.source);
}

void Latest::costs(std::span<const CollectorCost> costs) {
  std::lock_guard lock(mutex_);
  costs_.assign(costs.begin(), costs.end());
}

}  // namespace tracesmith::hardware
