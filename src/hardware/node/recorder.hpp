// Node telemetry in a trace: a sampler whose findings become rows of nodes, devices, links, metrics and losses.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "hardware/sampler.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::hardware {

/// The writer must outlive it. start() and stop() by one thread; rows are appended by the sampler's threads.
class TelemetryRecorder : private SampleSink {
 public:
  /// options.places.node names the node in the trace.
  TelemetryRecorder(trace::Writer& writer, const SamplerOptions& options);
  ~TelemetryRecorder() override;

  void start();
  /// Writes what is left; the first write error, if there was one.
  Status stop();

  struct Stats {
    uint64_t samples = 0, gaps = 0, missed = 0, gpus = 0;
    double cpu_s = 0;
  };
  /// After stop().
  const Stats& stats() const { return stats_; }

 private:
  void inventory(const Inventory& inventory) override;
  void samples(std::span<const Sample> samples) override;
  void gap(const Gap& gap) override;
  void costs(std::span<const CollectorCost> costs) override;
  template <typename Row>
  void append(const Row& row);

  trace::Writer& writer_;
  std::unique_ptr<trace::Appender> out_;
  int64_t node_;
  std::map<const MetricInfo*, std::pair<int64_t, int64_t>> names_;  // name and unit
  std::set<std::string> known_;                                     // GPUs that have their row
  bool node_written_ = false;
  Status status_;
  Stats stats_;
  Sampler sampler_;
};

/// Rows of `devices` and `links`, and of `nodes`, for what was found.
Status appendInventory(trace::Writer& writer, trace::Appender& out, const Inventory& inventory,
                       std::set<std::string>& known, bool node);

/// Key of the row of `metadata` in which the cost of collectors is kept, a JSON array.
inline constexpr const char* kCostKey = "telemetry.cost";

}  // namespace tracesmith::hardware
