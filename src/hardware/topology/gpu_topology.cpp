#include "tracesmith/hardware/gpu_topology.hpp"

#include <algorithm>

#include "hardware/capability.hpp"
#include "hardware/inventory.hpp"
#include "hardware/topology/links.hpp"

namespace tracesmith::cluster {

using hardware::Gpu;
using hardware::kUnknown;
using hardware::NvLink;

namespace {

// What a copy costs before its first byte arrives, on one part of its path: order of magnitude, for estimates only.
constexpr double kNvLinkLatency = 2e-6, kPcieLatency = 6e-6;

GPULinkType nvlinkType(int64_t version) {
  switch (version) {
    case 1:
      return GPULinkType::NVLink1;
    case 2:
      return GPULinkType::NVLink2;
    case 3:
      return GPULinkType::NVLink3;
    case 5:
      return GPULinkType::NVLink5;
    default:
      return GPULinkType::NVLink4;
  }
}

/// GB/s of a lane in one direction, after its line code.
std::optional<double> pcieLane(int64_t generation) {
  static constexpr double kLane[] = {0, 0.25, 0.5, 0.9846, 1.9692, 3.9385, 7.5625};
  if (generation < 1 || generation > 6) return std::nullopt;
  return kLane[generation];
}

struct Sum {
  uint32_t count = 0;
  std::optional<double> gbps = 0;  // absent: that of one of them is not known
  int64_t version = kUnknown;
};

template <typename Wanted>
Sum sumLinks(const Gpu& gpu, Wanted wanted) {
  Sum sum;
  for (const NvLink& l : gpu.links) {
    if (!l.active || !wanted(l)) continue;
    ++sum.count;
    sum.version = l.version;
    if (l.speed_mbps == kUnknown) sum.gbps.reset();
    if (sum.gbps) *sum.gbps += static_cast<double>(l.speed_mbps) / 1000;
  }
  return sum;
}

bool toSwitch(const NvLink& l) { return l.remote == NvLink::Remote::nvswitch; }

}  // namespace

const char* linkTypeName(GPULinkType type) {
  switch (type) {
    case GPULinkType::None:
      return "none";
    case GPULinkType::PCIe:
      return "PCIe";
    case GPULinkType::NVLink1:
      return "NVLink1";
    case GPULinkType::NVLink2:
      return "NVLink2";
    case GPULinkType::NVLink3:
      return "NVLink3";
    case GPULinkType::NVLink4:
      return "NVLink4";
    case GPULinkType::NVLink5:
      return "NVLink5";
    case GPULinkType::NVSwitch:
      return "NVSwitch";
  }
  return "none";
}

GPULinkType linkTypeOf(std::string_view name) {
  for (GPULinkType type : {GPULinkType::PCIe, GPULinkType::NVLink1, GPULinkType::NVLink2, GPULinkType::NVLink3,
                           GPULinkType::NVLink4, GPULinkType::NVLink5, GPULinkType::NVSwitch})
    if (name == linkTypeName(type)) return type;
  return GPULinkType::None;
}

GPUTopologyInfo topologyOf(size_t gpus, const std::vector<model::LinkStatus>& links) {
  GPUTopologyInfo topology;
  topology.gpu_count = static_cast<uint32_t>(gpus);
  for (const model::LinkStatus& l : links) {
    const GPULinkType type = linkTypeOf(l.kind);
    topology.links.push_back({l.gpu_a, l.gpu_b, type, l.count, l.gbps, l.measured_gbps});
    topology.link_matrix[{l.gpu_a, l.gpu_b}] = topology.link_matrix[{l.gpu_b, l.gpu_a}] = type;
    topology.has_nvswitch |= type == GPULinkType::NVSwitch;
  }
  return topology;
}

GPULink directLink(const Gpu& a, const Gpu& b) {
  GPULink link;
  link.gpu_a = static_cast<uint32_t>(a.index);
  link.gpu_b = static_cast<uint32_t>(b.index);
  const Sum direct = sumLinks(a, [&](const NvLink& l) {
    return l.remote != NvLink::Remote::nvswitch && !b.pci.empty() && l.remote_pci == b.pci;
  });
  const Sum sa = sumLinks(a, toSwitch), sb = sumLinks(b, toSwitch);
  if (direct.count > 0) {
    link.type = nvlinkType(direct.version);
    link.link_count = direct.count;
    link.bandwidth_gbps = direct.gbps;
  } else if (sa.count > 0 && sb.count > 0) {
    link.type = GPULinkType::NVSwitch;
    link.link_count = std::min(sa.count, sb.count);
    if (sa.gbps && sb.gbps) link.bandwidth_gbps = std::min(*sa.gbps, *sb.gbps);
  } else if (!a.pci.empty() && !b.pci.empty()) {
    link.type = GPULinkType::PCIe;
    link.link_count = static_cast<uint32_t>(std::max<int64_t>(0, std::min(a.pcie_lanes, b.pcie_lanes)));
    const std::optional<double> lane = pcieLane(std::min(a.pcie_generation, b.pcie_generation));
    if (lane && link.link_count > 0) link.bandwidth_gbps = *lane * link.link_count;
  }
  return link;
}

GPUTopology::GPUTopology() : inventory_(std::make_shared<hardware::Inventory>()) {}

GPUTopology::GPUTopology(const hardware::Inventory& inventory)
    : inventory_(std::make_shared<hardware::Inventory>(inventory)) {
  build();
}

GPUTopology::GPUTopology(GPUTopologyInfo topology)
    : inventory_(std::make_shared<hardware::Inventory>()), topology_(std::move(topology)) {}

bool GPUTopology::discover() {
  inventory_ = std::make_shared<hardware::Inventory>(hardware::discover(hardware::Places::fromEnvironment()));
  build();
  if (Result<hardware::Capability> record = hardware::loadCapability(hardware::capabilityPath(inventory_->node));
      record)
    setMeasured(record->links());
  status_ = {};
  if (topology_.gpu_count > 0) return true;
  std::string why = "no GPU found";
  for (const std::string& note : inventory_->notes) why += (why.ends_with("found") ? ": " : "; ") + note;
  status_ = Status::notFound(why);
  return false;
}

void GPUTopology::build() {
  topology_ = {};
  topology_.gpu_count = static_cast<uint32_t>(inventory_->gpus.size());
  for (size_t i = 0; i < inventory_->gpus.size(); ++i)
    for (size_t j = i + 1; j < inventory_->gpus.size(); ++j) {
      GPULink link = directLink(inventory_->gpus[i], inventory_->gpus[j]);
      topology_.link_matrix[{link.gpu_a, link.gpu_b}] = link.type;
      topology_.link_matrix[{link.gpu_b, link.gpu_a}] = link.type;
      topology_.has_nvswitch |= link.type == GPULinkType::NVSwitch;
      topology_.links.push_back(std::move(link));
    }
  for (const Gpu& g : inventory_->gpus) topology_.has_nvswitch |= sumLinks(g, toSwitch).count > 0;
}

const GPULink* GPUTopology::getLink(uint32_t a, uint32_t b) const {
  for (const GPULink& l : topology_.links)
    if ((l.gpu_a == a && l.gpu_b == b) || (l.gpu_a == b && l.gpu_b == a)) return &l;
  return nullptr;
}

GPULinkType GPUTopology::getLinkType(uint32_t a, uint32_t b) const {
  const GPULink* link = getLink(a, b);
  return link ? link->type : GPULinkType::None;
}

std::optional<double> GPUTopology::getBandwidth(uint32_t a, uint32_t b) const {
  const GPULink* link = getLink(a, b);
  if (!link) return std::nullopt;
  return link->measured_bandwidth ? link->measured_bandwidth : link->bandwidth_gbps;
}

bool GPUTopology::canAccessPeer(uint32_t a, uint32_t b) const {
  const hardware::GpuPair* pair = inventory_->pair(static_cast<int32_t>(a), static_cast<int32_t>(b));
  return pair && pair->peer_access == 1;
}

std::vector<uint32_t> GPUTopology::getOptimalPath(uint32_t src, uint32_t dst) const {
  if (!inventory_->gpu(static_cast<int32_t>(src)) || !inventory_->gpu(static_cast<int32_t>(dst))) return {};
  if (src == dst) return {src};
  struct Best {
    double width = 0;
    uint32_t hops = UINT32_MAX, from = 0;
    bool settled = false;
  };
  std::map<uint32_t, Best> best;
  for (const Gpu& g : inventory_->gpus) best[static_cast<uint32_t>(g.index)];
  best[src].width = 1e300;
  best[src].hops = 0;
  for (;;) {  // Dijkstra's, with width for length
    auto next = best.end();
    for (auto i = best.begin(); i != best.end(); ++i)
      if (!i->second.settled && i->second.width > 0 &&
          (next == best.end() || i->second.width > next->second.width ||
           (i->second.width == next->second.width && i->second.hops < next->second.hops)))
        next = i;
    if (next == best.end()) return {};
    const auto [at, reached] = *next;
    next->second.settled = true;
    if (at == dst) break;
    for (auto& [to, b] : best) {
      // Data stays on GPUs that can reach each other's memory; the last step may go over the host.
      if (b.settled || (to != dst && !canAccessPeer(at, to))) continue;
      const double width = std::min(reached.width, getBandwidth(at, to).value_or(0));
      if (width > b.width || (width == b.width && width > 0 && reached.hops + 1 < b.hops))
        b = {width, reached.hops + 1, at, false};
    }
  }
  std::vector<uint32_t> path = {dst};
  while (path.back() != src) path.push_back(best[path.back()].from);
  std::reverse(path.begin(), path.end());
  return path;
}

std::optional<double> GPUTopology::getPathBandwidth(uint32_t src, uint32_t dst) const {
  const std::vector<uint32_t> path = getOptimalPath(src, dst);
  std::optional<double> width;
  for (size_t i = 0; i + 1 < path.size(); ++i) {  // the path has only links whose speed is known
    const double link = getBandwidth(path[i], path[i + 1]).value();
    width = std::min(width.value_or(link), link);
  }
  return width;
}

std::optional<double> GPUTopology::estimateTransferTime(uint32_t src, uint32_t dst, uint64_t bytes) const {
  const std::vector<uint32_t> path = getOptimalPath(src, dst);
  const std::optional<double> width = getPathBandwidth(src, dst);
  if (!width) return std::nullopt;
  double latency = 0;
  for (size_t i = 0; i + 1 < path.size(); ++i)
    latency += getLinkType(path[i], path[i + 1]) == GPULinkType::PCIe ? kPcieLatency : kNvLinkLatency;
  return latency + static_cast<double>(bytes) / (*width * 1e9);
}

void GPUTopology::setMeasured(const std::map<std::pair<uint32_t, uint32_t>, double>& gbps) {
  for (GPULink& l : topology_.links) {
    auto there = gbps.find({l.gpu_a, l.gpu_b}), back = gbps.find({l.gpu_b, l.gpu_a});
    if (there != gbps.end()) l.measured_bandwidth = there->second;
    if (back != gbps.end()) l.measured_bandwidth = std::min(l.measured_bandwidth.value_or(1e300), back->second);
  }
}

}  // namespace tracesmith::cluster
