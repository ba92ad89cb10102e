#include "sdk/schedule.hpp"

#include "hardware/inventory.hpp"
#include "schedule/node.hpp"
#include "schedule/placement.hpp"
#include "sdk/bind.hpp"
#include "sdk/structs.hpp"
#include "tracesmith/schedule/gpu_clustering_manager.hpp"

namespace tracesmith::schedule {

FIELDS(GPUDevice, device_id, name, vendor, node, index, memory_bytes, compute_capability, compute_units, clock_rate_mhz,
       bandwidth_gbps, matrix_tflops, precisions, driver_version, problem, simulated)
FIELDS(GPUMetrics, device_id, timestamp, memory_used_bytes, memory_total_bytes, compute_utilization_percent,
       power_watts, temperature_celsius, clock_rate_mhz)
FIELDS(AggregatedMetrics, device_count, reporting_count, stale_count, total_memory_bytes, used_memory_bytes,
       available_memory_bytes, average_utilization_percent, average_temperature_celsius, total_power_watts, timestamp)
FIELDS(SelectionRequest, count, min_memory_bytes, precision, vendor, node, near, max_utilization_percent,
       max_temperature_celsius, exclude, max_age_s)
FIELDS(Share, device_id, count)
FIELDS(GPUClusteringConfig, max_history, max_age_s)
FIELDS(WorkRequest, tasks, strategy, capacities, precision, max_per_device, max_of)
FIELDS(RankGroup, ranks, weight, chain)
FIELDS(PlacementRequest, tensor, data, pipeline, tensor_weight, data_weight, pipeline_weight, groups, ranks)
FIELDS(PlacementLink, a, b, gbps)
FIELDS(Placed, rank, device_id)
FIELDS(Placement, ranks, cost, naive_cost, exact, assumed_links)

}  // namespace tracesmith::schedule

namespace tracesmith::sdk {
namespace {

using namespace schedule;

const Methods<GPUClusteringManager>& manager() {
  using M = GPUClusteringManager;
  auto record = +[](M& m, const GPUMetrics& metrics) { return m.recordMetrics(metrics); };
  auto aggregate = +[](M& m) { return m.getAggregatedMetrics(); };
  auto select = +[](M& m, const SelectionRequest& request) -> Result<Raw> {
    Result<Selection> selection = m.select(request);
    if (!selection) return selection.status();
    return Raw{selectionJson(*selection, request)};
  };
  auto discover = +[](M& m) -> Result<std::vector<GPUDevice>> {
    const hardware::Inventory inventory = hardware::discover(hardware::Places::fromEnvironment());
    hardware::Capability capability;
    if (Result<hardware::Capability> found = hardware::loadCapability(hardware::capabilityPath(inventory.node)); found)
      capability = std::move(*found);
    TS_TRY(registerNode(m, inventory, capability));
    std::vector<GPUDevice> devices;
    for (const hardware::Gpu& gpu : inventory.gpus) devices.push_back(deviceOf(inventory, gpu, capability));
    return devices;
  };
  static const auto* list = &(new Methods<M>)
                                 ->add("registerDevice", &M::registerDevice)
                                 .add("unregisterDevice", &M::unregisterDevice)
                                 .add("getDevice", &M::getDevice)
                                 .add("listDevices", &M::listDevices)
                                 .add("discoverDevices", discover)
                                 .add("recordMetrics", record)
                                 .add("getMetrics", &M::getMetrics)
                                 .add("getHistory", &M::getHistory)
                                 .add("getAggregatedMetrics", aggregate)
                                 .add("selectBestDevice", &M::selectBestDevice)
                                 .add("select", select)
                                 .add("distributeWorkload", &M::distributeWorkload)
                                 .add("distributeLayers", &M::distributeLayers);
  return *list;
}

struct Distributor {
  explicit Distributor(const NoConfig&) {}
};

/// Objects of JSON have an order, but a map has not: devices come as a list.
Result<Weights> weightsOf(const std::vector<std::string>& devices, const std::vector<double>& values) {
  if (devices.size() != values.size()) return Status::invalid("there must be a value for each device");
  Weights weights;
  for (size_t i = 0; i < devices.size(); ++i) weights.emplace_back(devices[i], values[i]);
  return weights;
}

const Methods<Distributor>& distributor() {
  using Shares = Result<std::vector<Share>>;
  using Devices = std::vector<std::string>;
  auto uniform =
      +[](Distributor&, const uint64_t& count, const Devices& devices, const std::optional<uint64_t>& most) -> Shares {
    return WorkloadDistributor::uniform(count, devices, {most});
  };
  auto capacity = +[](Distributor&, const uint64_t& count, const Devices& devices,
                      const std::vector<double>& capacities, const std::optional<uint64_t>& most) -> Shares {
    Result<Weights> weights = weightsOf(devices, capacities);
    return weights ? WorkloadDistributor::byCapacity(count, *weights, {most}) : weights.status();
  };
  auto layers = +[](Distributor&, const uint64_t& count, const Devices& devices, const std::vector<double>& memory,
                    const uint64_t& layer_bytes) -> Shares {
    Result<Weights> weights = weightsOf(devices, memory);
    return weights ? WorkloadDistributor::layersByMemory(count, *weights, layer_bytes) : weights.status();
  };
  static const auto* list =
      &(new Methods<Distributor>)->add("uniform", uniform).add("byCapacity", capacity).add("layersByMemory", layers);
  return *list;
}

struct Placer {
  explicit Placer(const NoConfig&) {}
};

/// Of these devices, named as NODE:INDEX, or of this machine's GPUs.
Result<Placement> placeOn(const PlacementRequest& request, const std::vector<std::string>& ids,
                          const std::vector<PlacementLink>& links) {
  PlacementDevices devices;
  for (const std::string& id : ids) devices.addDevice(id, id.substr(0, id.rfind(':')));
  if (ids.empty()) {
    const hardware::Inventory inventory = hardware::discover(hardware::Places::fromEnvironment());
    cluster::GPUTopology topology(inventory);
    if (Result<hardware::Capability> found = hardware::loadCapability(hardware::capabilityPath(inventory.node)); found)
      topology.setMeasured(found->links());
    std::vector<uint32_t> gpus;
    for (const hardware::Gpu& gpu : inventory.gpus) gpus.push_back(static_cast<uint32_t>(gpu.index));
    devices.addNode(inventory.node, gpus, topology, {});
  }
  for (const PlacementLink& link : links) TS_TRY(devices.setLink(link));
  return schedule::place(devices, request);
}

const Methods<Placer>& placer() {
  auto place = +[](Placer&, const PlacementRequest& request, const std::vector<std::string>& devices,
                   const std::vector<PlacementLink>& links) { return placeOn(request, devices, links); };
  static const auto* list = &(new Methods<Placer>)->add("place", place);
  return *list;
}

struct Selector {
  explicit Selector(const NoConfig&) {}
};

const Methods<Selector>& selector() {
  auto score = +[](Selector&, const GPUMetrics& metrics, const uint64_t& max_memory_bytes) {
    return DeviceSelector::score(metrics, max_memory_bytes);
  };
  auto check = +[](Selector&, const GPUMetrics& metrics) { return schedule::check(metrics); };
  auto supported =
      +[](Selector&, const GPUDevice& device, const std::string& precision) { return supports(device, precision); };
  static const auto* list =
      &(new Methods<Selector>)->add("score", score).add("check", check).add("supports", supported);
  return *list;
}

}  // namespace

std::vector<Class> scheduleClasses() {
  return {Bound<GPUClusteringManager, GPUClusteringConfig, manager>::of("GPUClusteringManager"),
          Bound<Selector, NoConfig, selector>::of("DeviceSelector"), Bound<Placer, NoConfig, placer>::of("RankPlacer"),
          Bound<Distributor, NoConfig, distributor>::of("WorkloadDistributor")};
}

void describeScheduleStructs(JsonWriter& w) {
  describeStruct<GPUDevice>(w);
  describeStruct<GPUMetrics>(w);
  describeStruct<AggregatedMetrics>(w);
  describeStruct<SelectionRequest>(w);
  describeStruct<Share>(w);
  describeStruct<GPUClusteringConfig>(w);
  describeStruct<WorkRequest>(w);
  describeStruct<RankGroup>(w);
  describeStruct<PlacementRequest>(w);
  describeStruct<PlacementLink>(w);
  describeStruct<Placed>(w);
  describeStruct<Placement>(w);
}

}  // namespace tracesmith::sdk
