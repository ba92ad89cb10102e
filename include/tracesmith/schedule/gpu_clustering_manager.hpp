// The devices of a cluster: registers them, takes their telemetry, chooses among them and splits work over them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"
#include "tracesmith/schedule/device.hpp"
#include "tracesmith/schedule/device_selector.hpp"
#include "tracesmith/schedule/telemetry_collector.hpp"
#include "tracesmith/schedule/workload_distributor.hpp"

namespace tracesmith::schedule {

struct GPUClusteringConfig {
  uint32_t max_history = 100;  ///< reports to keep of each device
  double max_age_s = 30;       ///< older telemetry does not count; 0: any does
};

/// What work is to be split, and how.
struct WorkRequest {
  uint64_t tasks = 0;
  std::string strategy = "uniform";          ///< uniform, capacity
  std::map<std::string, double> capacities;  ///< of every device; empty: its measured speed in `precision`
  std::string precision = "bf16";            ///< whose measured speed is the capacity
  std::optional<uint64_t> max_per_device;
  std::map<std::string, uint64_t> max_of;  ///< limits of single devices
};

/// Thread safe.
class TRACESMITH_API GPUClusteringManager {
 public:
  explicit GPUClusteringManager(const GPUClusteringConfig& config = {});
  /// Over the store that the sampler of this node fills. Devices need their index.
  explicit GPUClusteringManager(const hardware::Latest& latest, const GPUClusteringConfig& config = {});

  /// A device that is there already is replaced, and keeps its telemetry.
  Status registerDevice(const GPUDevice& device);
  /// False if there is none.
  bool unregisterDevice(const std::string& device_id);
  std::optional<GPUDevice> getDevice(const std::string& device_id) const;
  /// In the order in which they were registered.
  std::vector<GPUDevice> listDevices() const;
  /// How the GPUs of a node are connected, for SelectionRequest::near.
  void setTopology(const std::string& node, cluster::GPUTopology topology);

  /// Fails if the device is not registered, or the report is impossible. seen_ns: when it arrived; 0: now.
  Status recordMetrics(const GPUMetrics& metrics, int64_t seen_ns = 0);
  /// The newest report, of any age.
  std::optional<GPUMetrics> getMetrics(const std::string& device_id) const;
  /// Oldest first.
  std::vector<GPUMetrics> getHistory(const std::string& device_id) const;
  AggregatedMetrics getAggregatedMetrics(int64_t now_ns = 0) const;

  /// The best device with so much free memory; absent: none is suitable, and select() says why.
  std::optional<GPUDevice> selectBestDevice(uint64_t min_memory_bytes = 0) const;
  Result<Selection> select(const SelectionRequest& request, int64_t now_ns = 0) const;

  Result<std::vector<Share>> distributeWorkload(const WorkRequest& request) const;
  /// Layers of a model in proportion to the memory that is free now.
  Result<std::vector<Share>> distributeLayers(uint64_t layers, uint64_t layer_bytes = 0) const;

  const GPUClusteringConfig& config() const { return config_; }

 private:
  struct Slot {          // what a choice looks at first is first in memory
    int32_t number = 0;  // in telemetry_
    bool registered = false;
    GPUDevice device;
  };
  const Slot* find(const std::string& device_id) const;
  Result<std::string> resolve(const std::string& name) const;
  Result<Weights> capacities(const WorkRequest& request) const;

  const GPUClusteringConfig config_;
  const bool view_;
  TelemetryCollector telemetry_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Slot> slots_;   // of all devices that ever were, in the order in which they came
  std::unordered_map<std::string, size_t> slot_of_;
  std::map<std::string, cluster::GPUTopology> topologies_;
};

}  // namespace tracesmith::schedule
