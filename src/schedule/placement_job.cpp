// What is to be placed, and where: groups of a job, devices of nodes.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "hardware/topology/links.hpp"
#include "schedule/node.hpp"
#include "schedule/placement.hpp"

namespace tracesmith::schedule {
namespace {

constexpr uint32_t kMostRanks = PlacementDevices::kMost;
constexpr size_t kMostGroups = 65536;

Status check(const RankGroup& group, uint32_t ranks) {
  if (!(std::isfinite(group.weight) && group.weight >= 0))
    return Status::invalid("the weight of a group must be a number of at least 0");
  std::set<uint32_t> seen;
  for (const uint32_t rank : group.ranks) {
    if (rank >= ranks)
      return Status::invalid("rank " + std::to_string(rank) + " of a group is not one of the " + std::to_string(ranks) +
                             " ranks");
    if (!seen.insert(rank).second) return Status::invalid("rank " + std::to_string(rank) + " is in a group twice");
  }
  return {};
}

}  // namespace

Result<std::vector<RankGroup>> groupsOf(const PlacementRequest& r, uint32_t& ranks) {
  std::vector<RankGroup> groups = r.groups;
  if (groups.size() > kMostGroups) return Status::invalid("there are too many groups");
  if (!groups.empty()) {
    ranks = r.ranks;
    if (ranks == 0)
      for (const RankGroup& g : groups)
        for (const uint32_t rank : g.ranks) ranks = std::max(ranks, std::min(rank, kMostRanks) + 1);
    if (ranks > kMostRanks)
      return Status::invalid("a job of at most " + std::to_string(kMostRanks) + " ranks is placed");
    for (const RankGroup& g : groups) TS_TRY(check(g, ranks));
    return groups;
  }
  const uint64_t all = uint64_t{r.tensor} * r.data * r.pipeline;
  if (r.tensor > kMostRanks || r.data > kMostRanks || r.pipeline > kMostRanks || all > kMostRanks)
    return Status::invalid("a job of at most " + std::to_string(kMostRanks) + " ranks is placed");
  if (all == 0) return Status::invalid("the sizes of groups must be at least 1");
  ranks = static_cast<uint32_t>(all);
  const uint32_t sizes[] = {r.tensor, r.data, r.pipeline}, strides[] = {1, r.tensor, r.tensor * r.data};
  const double weights[] = {r.tensor_weight, r.data_weight, r.pipeline_weight};
  for (int kind = 0; kind < 3; ++kind) {
    if (sizes[kind] < 2) continue;
    for (uint32_t first = 0; first < ranks; ++first) {
      if (first / strides[kind] % sizes[kind] != 0) continue;
      RankGroup& group = groups.emplace_back();
      group.weight = weights[kind];
      group.chain = kind == 2;
      for (uint32_t i = 0; i < sizes[kind]; ++i) group.ranks.push_back(first + i * strides[kind]);
    }
  }
  for (const RankGroup& g : groups) TS_TRY(check(g, ranks));
  return groups;
}

void PlacementDevices::set(size_t a, size_t b, double gbps, bool known) {
  at(a, b) = at(b, a) = {static_cast<float>(std::max(gbps, 1e-3)), known};
}

void PlacementDevices::addDevice(const std::string& id, const std::string& node) {
  if (ids_.size() >= kMost) {
    ids_.push_back(id);  // place() refuses
    return;
  }
  const size_t device = ids_.size();
  ids_.push_back(id);
  nodes_.push_back(node);
  network_.emplace_back();
  speeds_.resize((device + 1) * kMost);
  for (size_t other = 0; other < device; ++other) {
    const bool same = nodes_[other] == node;
    set(device, other, same ? kInNode : kBetweenNodes, false);
  }
}

void PlacementDevices::addNode(const std::string& node, const std::vector<uint32_t>& gpus,
                               const cluster::GPUTopology& topology, std::optional<double> network_gbps) {
  const size_t first = ids_.size();
  for (const uint32_t gpu : gpus) addDevice(deviceId(node, gpu), node);
  if (ids_.size() > kMost) return;
  for (size_t i = 0; i < gpus.size(); ++i) {
    network_[first + i] = network_gbps;
    for (size_t j = 0; j < i; ++j)
      if (std::optional<double> gbps = topology.getPathBandwidth(gpus[j], gpus[i]);
          gbps || (gbps = topology.getBandwidth(gpus[j], gpus[i])))
        if (*gbps > 0) set(first + i, first + j, *gbps, true);
    for (size_t other = 0; other < first; ++other)  // the slower end counts
      if (network_gbps && network_[other]) set(first + i, other, std::min(*network_gbps, *network_[other]), true);
  }
}

void PlacementDevices::addNode(const model::NodeDescription& node) {
  std::vector<uint32_t> gpus;
  for (const model::DeviceStatus& gpu : node.gpus) gpus.push_back(gpu.index);
  std::optional<double> network;
  for (const model::NodeFigure& f : node.figures)
    if (f.name == "network_gbps" && f.median > 0) network = std::max(network.value_or(0), f.median);
  addNode(node.node, gpus, cluster::GPUTopology(cluster::topologyOf(node.gpus.size(), node.links)), network);
}

Status PlacementDevices::setLink(const PlacementLink& link) {
  const auto a = std::find(ids_.begin(), ids_.end(), link.a), b = std::find(ids_.begin(), ids_.end(), link.b);
  for (const auto& [found, name] : {std::pair(a, &link.a), {b, &link.b}})
    if (found == ids_.end()) return Status::notFound("a link is for " + *name + ", which is not one of the devices");
  if (a == b) return Status::invalid("a link connects two devices, not " + link.a + " with itself");
  if (!(std::isfinite(link.gbps) && link.gbps > 0))
    return Status::invalid("the speed of a link must be more than 0 GB/s");
  if (ids_.size() > kMost) return {};
  set(static_cast<size_t>(a - ids_.begin()), static_cast<size_t>(b - ids_.begin()), link.gbps, true);
  return {};
}

double PlacementDevices::gbps(size_t a, size_t b) const { return static_cast<double>(at(a, b).gbps); }

uint64_t PlacementDevices::assumed() const {
  uint64_t n = 0;
  if (ids_.size() > kMost) return n;
  for (size_t a = 0; a < ids_.size(); ++a)
    for (size_t b = 0; b < a; ++b) n += !at(a, b).known;
  return n;
}

std::string placementJson(const Placement& placement) {
  std::string out;
  JsonWriter w(out);
  w.beginObject().key("ranks").beginArray();
  for (const Placed& p : placement.ranks)
    w.beginObject().field("rank", static_cast<uint64_t>(p.rank)).field("device_id", p.device_id).endObject();
  w.endArray().field("cost", placement.cost).field("naive_cost", placement.naive_cost);
  w.field("exact", placement.exact).field("assumed_links", placement.assumed_links).endObject();
  return out;
}

}  // namespace tracesmith::schedule
