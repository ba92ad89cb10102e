// Watches the hardware of this node: one sampler a node, never one a rank. It creates no CUDA context and starts no
// program. Each source (a GPU, the CPUs, the network, …) has a thread of its own, so that a driver call that hangs
// stops nobody else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/inventory.hpp"
#include "hardware/metrics.hpp"

namespace tracesmith::hardware {

struct SamplerOptions {
  Places places;
  int fast_ms = 100, slow_ms = 1000, rare_ms = 10000;  ///< periods of the rates of metrics.def
  bool adaptive = false;          ///< give changes at once and silence only every rare_ms; read less while all is still
  bool gpus = true, host = true;  ///< what to watch
  std::vector<std::string>
      nvml_fields;     ///< more of NVML's fields, by name: "NVML_FI_DEV_PCIE_COUNT_BAD_TLP" or "pcie_count_bad_tlp"
  int hang_ms = 2000;  ///< a source that does not answer for so long is a gap
  int look_again_ms = 30000;  ///< how often to look for GPUs that came or came back
};

/// One value. Names and parts live as long as the call they are given in.
struct Sample {
  int64_t ts_ns = 0;    ///< rawClock()
  int32_t device = -1;  ///< GPU index of the inventory; −1: the host
  const MetricInfo* metric = nullptr;
  std::string_view part;  ///< which core, link, port, process; empty: the whole
  double value = 0;       ///< NaN: the device does not support it (said once)
};

/// A time in which a source gave nothing, though it should have.
struct Gap {
  int64_t from_ns = 0, to_ns = 0;  ///< to_ns 0: it lasts (a second call follows when it ends)
  int32_t device = -1;
  std::string source, cause, detail;  ///< "nvidia gpu 3", "GPU lost", one sentence
  uint64_t missed = 0;                ///< readings that are missing
};

/// What one source has cost since start().
struct CollectorCost {
  std::string source;
  int32_t device = -1;
  double cpu_s = 0, wall_s = 0, longest_s = 0, elapsed_s = 0;
  uint64_t readings = 0, samples = 0;
};

/// Takes what a sampler finds. Called from its threads, one at a time; must not call stop().
class SampleSink {
 public:
  virtual ~SampleSink() = default;
  /// At the beginning, and whenever GPUs came or went.
  virtual void inventory(const Inventory&) {}
  virtual void samples(std::span<const Sample> samples) = 0;
  virtual void gap(const Gap&) {}
  /// Every rare_ms and at the end.
  virtual void costs(std::span<const CollectorCost>) {}
};

class Sampler {
 public:
  /// The sink must live until stop() has returned.
  Sampler(SamplerOptions options, SampleSink& sink);
  /// stop()s.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Returns at once: hardware is looked for by a thread.
  void start();
  /// Ends gaps and gives the last costs. A thread that hangs in a driver is left behind, and touches nothing any more.
  void stop();
  /// Waits until the hardware was looked at for the first time; false if that took longer.
  bool waitForInventory(int timeout_ms);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads: one that hangs outlives the sampler
};

}  // namespace tracesmith::hardware
