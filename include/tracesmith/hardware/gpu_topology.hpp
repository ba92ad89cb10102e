// How the GPUs of this node are connected: NVLink, NVSwitch, PCIe; what a path can carry, and how long a copy takes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::hardware {
struct Inventory;
}

namespace tracesmith::cluster {

/// GPU interconnect type. What a link carries is read from the driver, not taken from its generation.
enum class GPULinkType {
  None,      ///< no direct connection
  PCIe,      ///< PCIe connection
  NVLink1,   ///< NVLink 1.0, Pascal
  NVLink2,   ///< NVLink 2.0, Volta
  NVLink3,   ///< NVLink 3.0, Ampere
  NVLink4,   ///< NVLink 4.0, Hopper
  NVSwitch,  ///< through NVSwitch
  NVLink5    ///< NVLink 5.0, Blackwell
};
TRACESMITH_API const char* linkTypeName(GPULinkType type);

/// Link between two GPUs.
struct GPULink {
  uint32_t gpu_a = 0;
  uint32_t gpu_b = 0;
  GPULinkType type = GPULinkType::None;
  uint32_t link_count = 0;                   ///< parallel links; PCIe: lanes
  std::optional<double> bandwidth_gbps;      ///< GB/s in one direction, all links together; absent: not known
  std::optional<double> measured_bandwidth;  ///< GB/s; absent until `tracesmith bench links` measured it
};

/// GPU topology information.
struct GPUTopologyInfo {
  uint32_t gpu_count = 0;
  bool has_nvswitch = false;
  std::vector<GPULink> links;  ///< the best direct connection of each pair, a < b
  std::map<std::pair<uint32_t, uint32_t>, GPULinkType> link_matrix;
};

/// GPU topology discovery and query. Queries may be asked from several threads.
class TRACESMITH_API GPUTopology {
 public:
  GPUTopology();
  /// For hardware that has already been discovered.
  explicit GPUTopology(const hardware::Inventory& inventory);
  /// Of another node, which told its links: it knows direct connections, and no paths over other GPUs.
  explicit GPUTopology(GPUTopologyInfo topology);

  /// Discovers this node, with what `tracesmith bench links` measured on it. False if it has no GPU; lastStatus() says
  /// why none was found.
  bool discover();
  Status lastStatus() const { return status_; }
  std::string lastError() const { return status_.message(); }

  GPUTopologyInfo getTopology() const { return topology_; }
  GPULinkType getLinkType(uint32_t gpu_a, uint32_t gpu_b) const;
  /// GB/s of the direct connection in one direction, measured if that was done; absent: not known.
  std::optional<double> getBandwidth(uint32_t gpu_a, uint32_t gpu_b) const;
  bool canAccessPeer(uint32_t gpu_a, uint32_t gpu_b) const;
  const GPULink* getLink(uint32_t gpu_a, uint32_t gpu_b) const;

  /// The path whose narrowest part is widest; of equal ones the shortest. Both ends included; empty: none.
  std::vector<uint32_t> getOptimalPath(uint32_t src, uint32_t dst) const;
  /// GB/s of the narrowest part of the optimal path; absent: no path.
  std::optional<double> getPathBandwidth(uint32_t src, uint32_t dst) const;
  /// Seconds to copy over the optimal path, pipelined over its parts; absent: no path, or of unknown speed.
  std::optional<double> estimateTransferTime(uint32_t src, uint32_t dst, uint64_t bytes) const;

  /// Takes what `tracesmith bench links` measured: GB/s of ordered pairs.
  void setMeasured(const std::map<std::pair<uint32_t, uint32_t>, double>& gbps);

  /// A matrix like that of nvidia-smi topo -m.
  std::string toASCII() const;
  std::string toGraphviz() const;
  std::string toJSON() const;
  /// A picture.
  std::string toSVG() const;

 private:
  void build();

  std::shared_ptr<const hardware::Inventory> inventory_;  // shared by copies of a topology
  GPUTopologyInfo topology_;
  Status status_;
};

}  // namespace tracesmith::cluster
