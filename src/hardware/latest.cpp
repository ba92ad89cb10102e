#include "hardware/latest.hpp"

namespace tracesmith::hardware {

double Latest::Value::rate() const {
  return before_ns == 0 || ts_ns <= before_ns ? 0 : (value - before) / (static_cast<double>(ts_ns - before_ns) * 1e-9);
}

const Latest::Value* Latest::State::find(Metric metric, int32_t device, const std::string& part) const {
  for (const Value& v : values)
    if (v.metric == &metricInfo(metric) && v.device == device && v.part == part) return &v;
  return nullptr;
}

Latest::State Latest::state() const {
  std::lock_guard lock(mutex_);
  State s;
  s.inventory = inventory_;
  s.costs = costs_;
  s.found = found_;
  for (const auto& [key, value] : values_) s.values.push_back(value);
  for (const auto& [source, gap] : gaps_) s.gaps.push_back(gap);
  return s;
}

void Latest::inventory(const Inventory& inventory) {
  std::lock_guard lock(mutex_);
  inventory_ = inventory;
  found_ = true;
}

void Latest::samples(std::span<const Sample> samples) {
  std::lock_guard lock(mutex_);
  for (const Sample& s : samples) {
    if (s.value != s.value) continue;  // not supported: not there
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
    if (history_ == 0) continue;
    v.history.push_back(s.metric->kind == MetricKind::counter ? v.rate() : s.value);
    if (v.history.size() > history_) v.history.pop_front();
  }
  // Processes that ended are not there any more.
  if (!samples.empty() && values_.size() > 4096)
    for (auto i = values_.begin(); i != values_.end();)
      i = samples[0].ts_ns - i->second.ts_ns > 60'000'000'000 ? values_.erase(i) : std::next(i);
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
