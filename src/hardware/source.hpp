// Where samples come from: one GPU, the CPUs, the network, … A source is used by one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "hardware/sampler.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::hardware {

constexpr double kNotSupported = std::numeric_limits<double>::quiet_NaN();

/// The values of one reading.
class Batch {
 public:
  void begin(int64_t ts_ns, int32_t device) {
    ts_ns_ = ts_ns;
    device_ = device;
    samples_.clear();
    used_ = 0;
  }
  /// `part` must live until the batch was delivered: text() makes it so.
  void add(const MetricInfo& metric, double value, std::string_view part = {}) {
    samples_.push_back({ts_ns_, device_, &metric, part, value});
  }
  void add(Metric metric, double value, std::string_view part = {}) { add(metricInfo(metric), value, part); }
  std::string_view text(std::string_view s) {
    if (used_ == texts_.size()) texts_.emplace_back();
    return texts_[used_++].assign(s);
  }
  int64_t tsNs() const { return ts_ns_; }
  std::vector<Sample>& samples() { return samples_; }

 private:
  int64_t ts_ns_ = 0;
  int32_t device_ = -1;
  std::vector<Sample> samples_;
  std::deque<std::string> texts_;
  size_t used_ = 0;
};

class Source {
 public:
  Source(std::string name, int32_t device, unsigned rates) : name_(std::move(name)), device_(device), rates_(rates) {}
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Gets ready to read; called again after a failure. Statuses say "cause: one sentence".
  virtual Status open() { return {}; }
  /// Adds the values of one rate. After a failure the source is opened again, later.
  virtual Status read(Rate rate, Batch& out) = 0;

  const std::string& name() const { return name_; }
  int32_t device() const { return device_; }
  bool has(Rate rate) const { return rates_ >> static_cast<unsigned>(rate) & 1; }

 private:
  std::string name_;
  int32_t device_;
  unsigned rates_;
};

constexpr unsigned rateBit(Rate rate) { return 1u << static_cast<unsigned>(rate); }
constexpr unsigned kAllRates = 7;

/// A total from readings of a counter that wraps, or begins again when a driver is reloaded: it never goes back.
class Counter {
 public:
  double total(uint64_t raw, int bits = 64) {
    if (seen_ && raw < last_) {
      const bool wrapped = bits < 64 && last_ - raw > 1ull << (bits - 1);
      base_ += wrapped ? 1ull << bits : last_;
    }
    seen_ = true;
    last_ = raw;
    return static_cast<double>(base_ + raw);
  }

 private:
  bool seen_ = false;
  uint64_t last_ = 0, base_ = 0;
};

}  // namespace tracesmith::hardware
