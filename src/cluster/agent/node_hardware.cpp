#include "cluster/agent/node_hardware.hpp"

#include "hardware/capability.hpp"
#include "hardware/nvidia/nccl_version.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {
namespace {

template <typename T>
std::optional<T> known(int64_t value) {
  return value == hardware::kUnknown ? std::nullopt : std::optional(static_cast<T>(value));
}

model::DeviceStatus describe(const hardware::Gpu& gpu) {
  model::DeviceStatus d;
  d.index = static_cast<uint32_t>(gpu.index);
  d.name = gpu.name;
  d.simulated = gpu.simulated;
  d.memory_bytes = known<uint64_t>(gpu.memory_bytes);
  d.vendor = gpu.vendor;
  d.uuid = gpu.uuid;
  d.pci = gpu.pci;
  d.cc_major = known<uint32_t>(gpu.cc_major);
  d.cc_minor = known<uint32_t>(gpu.cc_minor);
  return d;
}

model::LinkStatus describe(const GPULink& link) {
  model::LinkStatus l;
  l.gpu_a = link.gpu_a;
  l.gpu_b = link.gpu_b;
  l.kind = linkTypeName(link.type);
  l.count = link.link_count;
  l.gbps = link.bandwidth_gbps;
  l.measured_gbps = link.measured_bandwidth;
  return l;
}

}  // namespace

model::NodeDescription describeHardware(const hardware::Places& places) {
  const hardware::Inventory inventory = hardware::discover(places);
  GPUTopology topology(inventory);
  model::NodeDescription d;
  if (Result<hardware::Capability> record = hardware::loadCapability(hardware::capabilityPath(inventory.node));
      record) {
    topology.setMeasured(record->links());
    for (const hardware::Figure& f : record->figures)
      d.figures.push_back({f.median, f.low, f.high, f.unit, f.part, f.name});
  }
  d.driver = inventory.nvidia_driver;
  d.cuda = inventory.cuda;
  d.nccl = hardware::installedNccl(places.root);
  for (const hardware::Gpu& gpu : inventory.gpus) d.gpus.push_back(describe(gpu));
  for (const GPULink& link : topology.getTopology().links)
    if (link.type != GPULinkType::None) d.links.push_back(describe(link));
  return d;
}

void copyHardware(const model::NodeDescription& from, model::NodeDescription& to) {
  to.driver = from.driver;
  to.cuda = from.cuda;
  to.nccl = from.nccl;
  to.gpus = from.gpus;
  to.links = from.links;
  to.figures = from.figures;
}

}  // namespace tracesmith::cluster
