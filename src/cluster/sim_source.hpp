// Simulated GPUs of an agent (D10): a live simulated job in rings of its own, and telemetry that fits it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "capture/sim/live.hpp"
#include "cluster/api.hpp"
#include "cluster/recorder.hpp"

namespace tracesmith::cluster {

class SimulatedNode {
 public:
  static Result<std::unique_ptr<SimulatedNode>> start(int gpus, const std::string& node,
                                                      const std::string& ring_folder);
  ~SimulatedNode();

  std::vector<DeviceStatus> gpus() const;
  std::unique_ptr<NodeSource> source() const;

 private:
  SimulatedNode() = default;
  int gpus_ = 0;
  std::unique_ptr<sim::LiveJob> job_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tracesmith::cluster
