#include "tracesmith/schedule/device_selector.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/readings.hpp"

namespace tracesmith::schedule {
namespace {

using hardware::Latest;
using hardware::Metric;

constexpr double kMemoryWeight = 0.6, kIdleWeight = 0.4;
constexpr double kHotCelsius = 80, kHotSpanCelsius = 40, kLeastShare = 0.1;

double scoreOf(std::optional<double> free_bytes, std::optional<double> utilization_percent,
               std::optional<double> temperature_celsius, double max_memory_bytes) {
  if (max_memory_bytes <= 0) return 0;
  double score = 0;
  if (free_bytes) score += kMemoryWeight * std::clamp(*free_bytes / max_memory_bytes, 0.0, 1.0);
  if (utilization_percent) score += kIdleWeight * (1 - *utilization_percent / 100);
  if (temperature_celsius && *temperature_celsius > kHotCelsius)
    score *= std::max(kLeastShare, 1 - (*temperature_celsius - kHotCelsius) / kHotSpanCelsius);
  return std::clamp(score, 0.0, 1.0);
}

/// The numbers of one candidate that the choice depends on.
struct State {
  int64_t seen_ns = 0;
  std::optional<double> free_bytes, utilization_percent, temperature_celsius;
};

std::optional<double> totalOf(const Readings& readings, const Candidate& c) {
  if (const std::optional<double> total = readings.get(Metric::gpu_memory_total_bytes, c.number)) return total;
  return c.device->memory_bytes ? std::optional(static_cast<double>(*c.device->memory_bytes)) : std::nullopt;
}

State stateOf(const Readings& readings, const Candidate& c) {
  State s;
  for (Metric metric :
       {Metric::gpu_memory_used_bytes, Metric::gpu_utilization_percent, Metric::gpu_temperature_celsius})
    s.seen_ns = std::max(s.seen_ns, readings.view().get(metric, c.number).seen_ns);
  if (s.seen_ns == 0) s.seen_ns = readings.seenNs(c.number);  // it may report its power alone
  const std::optional<double> used = readings.get(Metric::gpu_memory_used_bytes, c.number),
                              total = totalOf(readings, c);
  if (used && total) s.free_bytes = std::max(0.0, *total - *used);
  s.utilization_percent = readings.get(Metric::gpu_utilization_percent, c.number);
  s.temperature_celsius = readings.get(Metric::gpu_temperature_celsius, c.number);
  return s;
}

/// What a device is, whatever it does now.
Reason whyNotThis(const GPUDevice& d, const SelectionRequest& r) {
  if (!r.near.empty() && d.device_id == r.near) return Reason::near_itself;
  if (!r.exclude.empty() && std::find(r.exclude.begin(), r.exclude.end(), d.device_id) != r.exclude.end())
    return Reason::excluded;
  if (!d.problem.empty()) return Reason::problem;
  if (!r.vendor.empty() && d.vendor != r.vendor) return Reason::vendor;
  if (!r.node.empty() && d.node != r.node) return Reason::node;
  if (r.precision.empty()) return Reason::none;
  const std::optional<bool> supported = supports(d, r.precision);
  return !supported ? Reason::precision_unknown : *supported ? Reason::none : Reason::no_precision;
}

/// What it does now.
Reason whyNotNow(const State& s, const Readings& readings, const SelectionRequest& r) {
  if (s.seen_ns == 0) return Reason::no_telemetry;
  if (!readings.fresh(s.seen_ns)) return Reason::stale;
  if (r.min_memory_bytes > 0) {
    if (!s.free_bytes) return Reason::memory_unknown;
    if (*s.free_bytes < static_cast<double>(r.min_memory_bytes)) return Reason::too_little_memory;
  }
  if (r.max_utilization_percent) {
    if (!s.utilization_percent) return Reason::utilization_unknown;
    if (*s.utilization_percent > *r.max_utilization_percent) return Reason::too_busy;
  }
  if (r.max_temperature_celsius) {
    if (!s.temperature_celsius) return Reason::temperature_unknown;
    if (*s.temperature_celsius > *r.max_temperature_celsius) return Reason::too_hot;
  }
  return Reason::none;
}

/// How near devices are to one: by the speed of the direct connection, then those of its node, then all others.
class Nearness {
 public:
  static constexpr double kOtherNode = -1, kSameNode = 0;  // else GB/s

  Nearness(const GPUDevice* to, const std::map<std::string, cluster::GPUTopology>& topologies) : to_(to) {
    if (!to_) return;
    if (const auto found = topologies.find(to_->node); found != topologies.end()) topology_ = &found->second;
  }
  double of(const GPUDevice& device) const {
    if (!to_) return kSameNode;
    if (device.node != to_->node) return kOtherNode;
    if (!topology_ || !device.index || !to_->index) return kSameNode;
    return topology_->getBandwidth(*device.index, *to_->index).value_or(kSameNode);
  }

 private:
  const GPUDevice* to_;
  const cluster::GPUTopology* topology_ = nullptr;
};

struct Ranked {
  double near = 0, score = 0;
  size_t at = 0;  // in the list of candidates
};

/// Best first. Of equal ones, the one that was registered first.
bool better(const Ranked& a, const Ranked& b) {
  if (a.near != b.near) return a.near > b.near;
  return a.score != b.score ? a.score > b.score : a.at < b.at;
}

Choice choiceOf(const Candidate& c, const State& s, const Ranked& ranked, const Readings& readings) {
  Choice choice;
  choice.device_id = c.device->device_id;
  choice.score = ranked.score;
  if (s.free_bytes) choice.memory_free_bytes = static_cast<uint64_t>(*s.free_bytes);
  choice.utilization_percent = s.utilization_percent;
  choice.temperature_celsius = s.temperature_celsius;
  if (ranked.near > 0) choice.near_gbps = ranked.near;
  choice.age_s = readings.ageS(s.seen_ns);
  choice.simulated = c.device->simulated;
  return choice;
}

Status checkRequest(const SelectionRequest& r) {
  if (r.count == 0) return Status::invalid("count must be at least 1");
  if (!(r.max_age_s >= 0)) return Status::invalid("max_age_s must not be negative");
  if (r.precision.empty()) return {};
  std::string all;
  for (const std::string& name : precisions()) {
    if (name == r.precision) return {};
    all += (all.empty() ? "" : ", ") + name;
  }
  return Status::invalid("unknown precision '" + r.precision + "': use one of " + all);
}

const GPUDevice* deviceOf(const std::vector<Candidate>& candidates, const std::string& id) {
  for (const Candidate& c : candidates)
    if (c.device->device_id == id) return c.device;
  return nullptr;
}

}  // namespace

double DeviceSelector::score(const GPUMetrics& m, uint64_t max_memory_bytes) {
  std::optional<double> free_bytes;
  if (m.memory_total_bytes && m.memory_used_bytes)
    free_bytes = static_cast<double>(*m.memory_total_bytes) - static_cast<double>(*m.memory_used_bytes);
  return scoreOf(free_bytes, m.compute_utilization_percent, m.temperature_celsius,
                 static_cast<double>(max_memory_bytes));
}

Result<Selection> DeviceSelector::select(const std::vector<Candidate>& candidates, const TelemetryCollector& telemetry,
                                         const std::map<std::string, cluster::GPUTopology>& topologies,
                                         const SelectionRequest& request, int64_t now_ns) const {
  TS_TRY(checkRequest(request));
  const GPUDevice* near = request.near.empty() ? nullptr : deviceOf(candidates, request.near);
  if (!request.near.empty() && !near)
    return Status::notFound("there is no device '" + request.near + "' to be near to");
  for (const std::string& id : request.exclude)
    if (!deviceOf(candidates, id)) return Status::notFound("there is no device '" + id + "' to exclude");
  const Nearness nearness(near, topologies);

  Selection out;
  telemetry.store().read([&](const Latest::View& view) {
    const Readings readings(view, request.max_age_s, orNow(now_ns));
    double largest = 0;
    for (const Candidate& c : candidates) largest = std::max(largest, totalOf(readings, c).value_or(0));
    std::vector<Ranked> ranked;
    ranked.reserve(candidates.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& c = candidates[i];
      Reason reason = whyNotThis(*c.device, request);
      const hardware::Latest::Cell& up = view.get(Metric::gpu_up, c.number);
      if (reason == Reason::none && up.known() && up.now.value == 0) reason = Reason::problem;
      const State s = reason == Reason::none ? stateOf(readings, c) : State{};
      if (reason == Reason::none) reason = whyNotNow(s, readings, request);
      double score = 0;
      if (reason == Reason::none) {
        score = scoreOf(s.free_bytes, s.utilization_percent, s.temperature_celsius, largest);
        if (score <= 0) reason = Reason::no_score;
      }
      if (reason == Reason::none)
        ranked.push_back({nearness.of(*c.device), score, i});
      else
        out.rejected.push_back({c.device->device_id, reason, reason == Reason::problem ? c.device->problem : ""});
    }
    out.suitable = ranked.size();
    const auto count = static_cast<ptrdiff_t>(std::min<size_t>(request.count, ranked.size()));
    std::partial_sort(ranked.begin(), ranked.begin() + count, ranked.end(), better);
    for (ptrdiff_t i = 0; i < count; ++i) {
      const Ranked& r = ranked[static_cast<size_t>(i)];
      out.devices.push_back(choiceOf(candidates[r.at], stateOf(readings, candidates[r.at]), r, readings));
    }
  });
  return out;
}

}  // namespace tracesmith::schedule
