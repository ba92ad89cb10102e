// The newest value of everything, and a short history: what the exporter and the terminal view show.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "hardware/sampler.hpp"

namespace tracesmith::hardware {

/// A sink that remembers. Thread safe.
class Latest : public SampleSink {
 public:
  /// `history`: values of a gauge, or differences of a counter, to keep; 0: none.
  explicit Latest(size_t history = 0) : history_(history) {}

  struct Value {
    const MetricInfo* metric;
    int32_t device;
    std::string part;
    int64_t ts_ns = 0, before_ns = 0;
    double value = 0, before = 0;
    uint64_t events = 0;         ///< how often an event happened
    std::deque<double> history;  ///< oldest first; of a counter its growth per second
    /// Growth per second since the value before; 0 where there is none.
    double rate() const;
  };
  struct State {
    Inventory inventory;
    std::vector<Value> values;
    std::vector<Gap> gaps;  ///< those that last
    std::vector<CollectorCost> costs;
    bool found = false;  ///< the hardware was looked at
    const Value* find(Metric metric, int32_t device, const std::string& part = "") const;
  };
  State state() const;

  void inventory(const Inventory& inventory) override;
  void samples(std::span<const Sample> samples) override;
  void gap(const Gap& gap) override;
  void costs(std::span<const CollectorCost> costs) override;

 private:
  using Key = std::tuple<const MetricInfo*, int32_t, std::string>;
  mutable std::mutex mutex_;  // guards all below
  size_t history_;
  std::map<Key, Value> values_;
  std::map<std::string, Gap> gaps_;  // by source
  std::vector<CollectorCost> costs_;
  Inventory inventory_;
  bool found_ = false;
};

/// All of it in Prometheus' text format: base units, counters ending in _total, one HELP and TYPE a name.
/// Values older than `stale_ns` are left out.
std::string prometheusText(const Latest::State& state, int64_t stale_ns);

}  // namespace tracesmith::hardware
