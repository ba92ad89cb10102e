// Which rank of a job runs on which GPU, so that ranks that exchange much are near each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/travel.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::schedule {

/// Ranks that exchange data. The weight is what a step moves through each of them, in GB or in any other unit that is
/// the same for all groups.
struct RankGroup {
  std::vector<uint32_t> ranks;
  double weight = 1;
  bool chain = false;  ///< each with the next alone, as stages of a pipeline; else all with all
};

/// How the ranks of a job are divided. Rank = tensor index + tensor × (data index + data × pipeline index), as usual.
struct PlacementRequest {
  uint32_t tensor = 1, data = 1, pipeline = 1;  ///< sizes of groups
  double tensor_weight = 16, data_weight = 4, pipeline_weight = 1;
  std::vector<RankGroup> groups;  ///< others, in place of the above
  uint32_t ranks = 0;             ///< of a job with `groups`; 0: the highest in them, and one
};

/// The speed of a link between two devices that is known, in one direction.
struct PlacementLink {
  std::string a, b;
  double gbps = 0;  ///< GB/s
};

/// Devices and how fast each pair of them is.
class PlacementDevices {
 public:
  static constexpr size_t kMost = 1024;
  /// Where nobody measured or stated the speed of a connection, GB/s: PCIe 3.0 x16 in a node, 100 Gbit/s between nodes.
  static constexpr double kInNode = 12, kBetweenNodes = 10;

  /// The GPUs of a node. `network_gbps`: what `bench` measured to another node.
  void addNode(const std::string& node, const std::vector<uint32_t>& gpus, const cluster::GPUTopology& topology,
               std::optional<double> network_gbps);
  /// A node that an agent told a master about.
  void addNode(const model::NodeDescription& node);
  /// One by one, for who knows better. Devices of one node are nearer than those of two.
  void addDevice(const std::string& id, const std::string& node);
  Status setLink(const PlacementLink& link);

  size_t size() const { return ids_.size(); }
  const std::string& id(size_t device) const { return ids_[device]; }
  double gbps(size_t a, size_t b) const;
  /// Pairs whose speed nobody knows.
  uint64_t assumed() const;

 private:
  struct Speed {
    float gbps = 0;
    bool known = false;
  };
  Speed& at(size_t a, size_t b) { return speeds_[a * kMost + b]; }
  const Speed& at(size_t a, size_t b) const { return speeds_[a * kMost + b]; }
  void set(size_t a, size_t b, double gbps, bool known);

  std::vector<std::string> ids_, nodes_;
  std::vector<std::optional<double>> network_;
  std::vector<Speed> speeds_;  // rows of kMost, those that are used
};

struct Placed {
  uint32_t rank = 0;
  std::string device_id;
};

struct Placement {
  std::vector<Placed> ranks;  ///< in the order of ranks
  /// What a step's exchanges take, group after group: seconds, if weights are GB.
  double cost = 0, naive_cost = 0;  ///< naive: rank 0 on the first device, and so on
  bool exact = false;               ///< no other placement is better
  uint64_t assumed_links = 0;       ///< pairs of devices whose speed is not known
};

/// Groups of a request, with ranks from 0 on.
Result<std::vector<RankGroup>> groupsOf(const PlacementRequest& request, uint32_t& ranks);

/// So many devices are placed by trying all orders: 8! are quickly tried.
constexpr size_t kExactDevices = 8;

/// Exact where there are few devices; beyond, the best that a greedy start and exchanges of pairs find, never worse
/// than the naive order.
Result<Placement> place(const PlacementDevices& devices, const PlacementRequest& request,
                        size_t exact_up_to = kExactDevices);

/// What `tracesmith devices --place --json` and POST /api/v1/place answer.
std::string placementJson(const Placement& placement);

}  // namespace tracesmith::schedule
