// The newest value of everything, and a short history: what the exporter and the terminal view show.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/metric_set.hpp"
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
  /// A reading. Its value is NaN where the device did not support the metric.
  struct Point {
    int64_t ts_ns = 0;
    double value = 0;
  };
  /// The newest value of a metric of a whole device.
  struct Cell {
    Point now, before;    ///< their ts_ns is 0 where there is none
    int64_t seen_ns = 0;  ///< rawClock() when it came here; 0: there is no value
    uint64_t events = 0;
    bool known() const { return seen_ns != 0; }
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

  /// What read() gives, for as long as it runs.
  class View {
   public:
    /// A cell without a value if the device has none.
    const Cell& get(Metric metric, int32_t device) const {  // here, because a choice calls it for every device
      const std::vector<Cell>& cells = latest_.columns_[static_cast<size_t>(metric)].cells;
      const auto row = static_cast<size_t>(device + 1);
      return row < cells.size() ? cells[row] : latest_.none_;
    }
    /// Oldest first, of a counter its growth per second.
    const std::vector<Point>& history(Metric metric, int32_t device) const;

   private:
    friend class Latest;
    explicit View(const Latest& latest) : latest_(latest) {}
    const Latest& latest_;
  };
  /// Calls f(View) under the lock, without a copy: values of whole devices lie side by side, so that reading one metric
  /// of ten thousand devices is one pass over memory. f must not call this object.
  template <typename F>
  void read(F f) const {
    std::lock_guard lock(mutex_);
    f(View(*this));
  }
  /// Forgets the values of a whole device, and their history.
  void forget(int32_t device);

  /// Samples that came at another time than now: of another machine, or in a test.
  void samples(std::span<const Sample> samples, int64_t seen_ns);

  void inventory(const Inventory& inventory) override;
  void samples(std::span<const Sample> samples) override;
  void gap(const Gap& gap) override;
  void costs(std::span<const CollectorCost> costs) override;

 private:
  using Key = std::tuple<const MetricInfo*, int32_t, std::string>;
  /// One metric of metrics.def, of whole devices: by device + 1, because the host is −1.
  struct Column {
    std::vector<Cell> cells;
    std::vector<std::vector<Point>> history;
  };
  void take(const Sample& sample, Column& column, int64_t seen_ns);
  void take(const Sample& sample);
  Value valueOf(size_t metric, size_t row) const;

  mutable std::mutex mutex_;  // guards all below
  size_t history_;
  std::array<Column, static_cast<size_t>(Metric::count)> columns_;
  const Cell none_{};                // of devices without a value
  std::map<Key, Value> values_;      // of parts, and of metrics that metrics.def does not have
  size_t tidy_at_ = 4096;            // so many values of parts, and those of processes that ended go
  std::map<std::string, Gap> gaps_;  // by source
  std::vector<CollectorCost> costs_;
  Inventory inventory_;
  bool found_ = false;
};

/// All of it as metrics: base units, counters ending in _total. Values older than `stale_ns` are left out.
MetricSet metricsOf(const Latest::State& state, int64_t stale_ns);

}  // namespace tracesmith::hardware
