// The agent's live report: every second what the GPUs measure and what the processes are at, in one small message.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "analysis/live/report.hpp"
#include "cluster/agent/live_rings.hpp"
#include "cluster/agent/ras_watch.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::cluster {

/// Runs in a thread of its own from construction to destruction. It does not depend on a master being there.
class LiveReporter {
 public:
  /// `latest`: what the node's sampler finds.
  /// `ras`: what NCCL tells of processes without the probe; null: it is not asked.
  LiveReporter(const std::string& node, const std::string& ring_folder, const hardware::Latest& latest, RasWatch* ras);
  ~LiveReporter();

  /// The newest report, if it was not taken yet. From any thread.
  std::optional<analysis::live::NodeReport> take();

 private:
  void loop();
  std::vector<analysis::live::GpuState> gpus() const;

  const std::string node_;
  RingWatch rings_;
  const hardware::Latest& latest_;
  RasWatch* const ras_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable stopped_;
  std::optional<analysis::live::NodeReport> newest_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tracesmith::cluster
