// Simulated GPUs of an agent: a live simulated job in rings of its own.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "capture/sim/live.hpp"
#include "cluster/api.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cluster {

class SimulatedNode {
 public:
  static Result<std::unique_ptr<SimulatedNode>> start(const AgentOptions& options, const std::string& node);
  ~SimulatedNode();

 private:
  SimulatedNode() = default;
  std::unique_ptr<sim::LiveJob> job_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tracesmith::cluster
