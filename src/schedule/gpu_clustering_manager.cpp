#include "tracesmith/schedule/gpu_clustering_manager.hpp"

#include <algorithm>

#include "schedule/readings.hpp"

namespace tracesmith::schedule {
namespace {

Status unknownDevice(const std::string& id) { return Status::notFound("there is no device '" + id + "': register it"); }

}  // namespace

GPUClusteringManager::GPUClusteringManager(const GPUClusteringConfig& config)
    : config_(config), view_(false), telemetry_(config.max_history) {}

GPUClusteringManager::GPUClusteringManager(const hardware::Latest& latest, const GPUClusteringConfig& config)
    : config_(config), view_(true), telemetry_(latest) {}

const GPUClusteringManager::Slot* GPUClusteringManager::find(const std::string& device_id) const {
  const auto found = slot_of_.find(device_id);
  return found != slot_of_.end() && slots_[found->second].registered ? &slots_[found->second] : nullptr;
}

Status GPUClusteringManager::registerDevice(const GPUDevice& device) {
  if (device.device_id.empty()) return Status::invalid("a device needs a device_id");
  if (view_ && !device.index) return Status::invalid("device '" + device.device_id + "' needs its index on this node");
  if (device.memory_bytes && *device.memory_bytes == 0)
    return Status::invalid("memory_bytes of '" + device.device_id +
                           "' must be more than 0; leave it out if it is not known");
  std::lock_guard lock(mutex_);
  const auto [found, fresh] = slot_of_.try_emplace(device.device_id, slots_.size());
  if (fresh) slots_.emplace_back();
  Slot& slot = slots_[found->second];
  slot.device = device;
  slot.number = static_cast<int32_t>(view_ ? *device.index : found->second);
  slot.registered = true;
  return {};
}

bool GPUClusteringManager::unregisterDevice(const std::string& device_id) {
  std::lock_guard lock(mutex_);
  if (!find(device_id)) return false;
  Slot& slot = slots_[slot_of_.at(device_id)];
  slot.registered = false;
  slot.device = {};
  telemetry_.forget(slot.number);
  return true;
}

std::optional<GPUDevice> GPUClusteringManager::getDevice(const std::string& device_id) const {
  std::lock_guard lock(mutex_);
  const Slot* slot = find(device_id);
  return slot ? std::optional(slot->device) : std::nullopt;
}

std::vector<GPUDevice> GPUClusteringManager::listDevices() const {
  std::lock_guard lock(mutex_);
  std::vector<GPUDevice> out;
  for (const Slot& slot : slots_)
    if (slot.registered) out.push_back(slot.device);
  return out;
}

void GPUClusteringManager::setTopology(const std::string& node, cluster::GPUTopology topology) {
  std::lock_guard lock(mutex_);
  topologies_.insert_or_assign(node, std::move(topology));
}

Status GPUClusteringManager::recordMetrics(const GPUMetrics& metrics, int64_t seen_ns) {
  std::lock_guard lock(mutex_);
  const Slot* slot = find(metrics.device_id);
  return slot ? telemetry_.record(slot->number, metrics, seen_ns) : unknownDevice(metrics.device_id);
}

std::optional<GPUMetrics> GPUClusteringManager::getMetrics(const std::string& device_id) const {
  std::lock_guard lock(mutex_);
  const Slot* slot = find(device_id);
  std::optional<GPUMetrics> metrics = slot ? telemetry_.latest(slot->number) : std::nullopt;
  if (metrics) metrics->device_id = device_id;
  return metrics;
}

std::vector<GPUMetrics> GPUClusteringManager::getHistory(const std::string& device_id) const {
  std::lock_guard lock(mutex_);
  const Slot* slot = find(device_id);
  std::vector<GPUMetrics> history = slot ? telemetry_.history(slot->number) : std::vector<GPUMetrics>();
  for (GPUMetrics& m : history) m.device_id = device_id;
  return history;
}

AggregatedMetrics GPUClusteringManager::getAggregatedMetrics(int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  std::vector<int32_t> devices;
  for (const Slot& slot : slots_)
    if (slot.registered) devices.push_back(slot.number);
  return telemetry_.aggregate(devices, config_.max_age_s, now_ns);
}

/// A device by its id, or by the end of it behind a colon where only one has it: "3" for "node-a:3".
Result<std::string> GPUClusteringManager::resolve(const std::string& name) const {
  if (name.empty() || find(name)) return name;
  std::vector<std::string> found;
  for (const Slot& slot : slots_)
    if (slot.registered && slot.device.device_id.ends_with(":" + name)) found.push_back(slot.device.device_id);
  if (found.size() == 1) return found[0];
  if (found.empty()) return Status::notFound("there is no device '" + name + "'");
  return Status::invalid("several devices are called '" + name + "': use " + found[0] + ", " + found[1] +
                         (found.size() > 2 ? ", …" : ""));
}

Result<Selection> GPUClusteringManager::select(const SelectionRequest& request, int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  SelectionRequest resolved = request;
  Result<std::string> near = resolve(request.near);
  if (!near) return near.status();
  resolved.near = *near;
  for (std::string& id : resolved.exclude) {
    Result<std::string> device = resolve(id);
    if (!device) return device.status();
    id = *device;
  }
  std::vector<Candidate> candidates;
  candidates.reserve(slots_.size());
  for (const Slot& slot : slots_)
    if (slot.registered) candidates.push_back({&slot.device, slot.number});
  return DeviceSelector().select(candidates, telemetry_, topologies_, resolved, now_ns);
}

std::optional<GPUDevice> GPUClusteringManager::selectBestDevice(uint64_t min_memory_bytes) const {
  SelectionRequest request;
  request.min_memory_bytes = min_memory_bytes;
  request.max_age_s = config_.max_age_s;
  const Result<Selection> selection = select(request);
  return selection && !selection->devices.empty() ? getDevice(selection->devices[0].device_id) : std::nullopt;
}

/// Of every device, as given or as measured.
Result<Weights> GPUClusteringManager::capacities(const WorkRequest& request) const {
  Weights weights;
  for (const Slot& slot : slots_) {
    if (!slot.registered) continue;
    const GPUDevice& d = slot.device;
    const std::map<std::string, double>& from = request.capacities.empty() ? d.matrix_tflops : request.capacities;
    const auto found = from.find(request.capacities.empty() ? request.precision : d.device_id);
    if (found != from.end())
      weights.emplace_back(d.device_id, found->second);
    else if (request.capacities.empty())
      return Status::invalid("the speed of '" + d.device_id + "' in " + request.precision +
                             " was not measured: give capacities, or run tracesmith bench hardware there");
    else
      return Status::invalid("there is no capacity for '" + d.device_id + "': give 0 if it is to get no work");
  }
  for (const auto& [id, capacity] : request.capacities)
    if (!find(id)) return unknownDevice(id);
  return weights;
}

Result<std::vector<Share>> GPUClusteringManager::distributeWorkload(const WorkRequest& request) const {
  const WorkLimits limits{request.max_per_device, request.max_of};
  std::lock_guard lock(mutex_);
  if (request.strategy == "capacity") {
    Result<Weights> weights = capacities(request);
    return weights ? WorkloadDistributor::byCapacity(request.tasks, *weights, limits) : weights.status();
  }
  if (request.strategy != "uniform")
    return Status::invalid("unknown strategy '" + request.strategy + "': use uniform or capacity");
  std::vector<std::string> devices;
  for (const Slot& slot : slots_)
    if (slot.registered) devices.push_back(slot.device.device_id);
  return WorkloadDistributor::uniform(request.tasks, devices, limits);
}

Result<std::vector<Share>> GPUClusteringManager::distributeLayers(uint64_t layers, uint64_t layer_bytes) const {
  std::lock_guard lock(mutex_);
  Weights memory;
  for (const Slot& slot : slots_) {
    if (!slot.registered) continue;
    const std::optional<GPUMetrics> m = telemetry_.latest(slot.number, config_.max_age_s);
    const std::optional<uint64_t> total = m && m->memory_total_bytes ? m->memory_total_bytes : slot.device.memory_bytes;
    if (!m || !m->memory_used_bytes || !total)
      return Status::invalid("the free memory of '" + slot.device.device_id +
                             "' is not known: it sent no telemetry for " +
                             std::to_string(static_cast<int64_t>(config_.max_age_s)) + " s");
    memory.emplace_back(slot.device.device_id, static_cast<double>(*total - std::min(*total, *m->memory_used_bytes)));
  }
  return WorkloadDistributor::layersByMemory(layers, memory, layer_bytes);
}

}  // namespace tracesmith::schedule
