// The node's one sampler: what it finds goes into the live report, and into the trace while somebody captures.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/agent/recorder.hpp"
#include "hardware/latest.hpp"

namespace tracesmith::cluster {

class HardwareSource final : public NodeSource, private hardware::SampleSink {
 public:
  /// Samples at once, every second as long as nobody captures. `latest` gets all of it and must outlive this.
  HardwareSource(hardware::Places places, hardware::Latest& latest);

  /// 0: only what the live report shows, and nothing is kept.
  void watch(uint32_t freq_ms) override;
  void newSegment() override;
  Result<size_t> take(trace::Writer& writer, trace::Appender& out) override;

 private:
  struct Value {
    int64_t ts_ns;
    int32_t device;
    const hardware::MetricInfo* metric;  // lives as long as the program
    std::string part;
    double value;
  };
  void start();
  // From the sampler's threads.
  void inventory(const hardware::Inventory& inventory) override;
  void samples(std::span<const hardware::Sample> samples) override;
  void gap(const hardware::Gap& gap) override;

  const hardware::Places places_;
  hardware::Latest& latest_;
  std::atomic<uint32_t> freq_ms_{0};
  std::set<std::string> described_;  // GPUs, in the segment at hand
  bool node_described_ = false;

  std::mutex mutex_;  // guards what follows
  std::vector<Value> values_;
  std::vector<hardware::Gap> gaps_;
  std::optional<hardware::Inventory> inventory_;
  bool inventory_new_ = false;
  uint64_t dropped_ = 0;

  std::unique_ptr<hardware::Sampler> sampler_;  // last: its threads use what is above
};

}  // namespace tracesmith::cluster
