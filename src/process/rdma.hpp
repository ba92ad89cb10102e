// InfiniBand and RoCE ports: how much goes over them, what goes wrong, and which processes use them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capture/collect/training_now.hpp"
#include "hardware/latest.hpp"
#include "hardware/source.hpp"
#include "model/travel.hpp"

namespace tracesmith::process {

/// Reads the ports again and again. One thread.
class RdmaWatch {
 public:
  /// `root`: before /sys and /proc.
  explicit RdmaWatch(std::string root);
  /// As they are now; rates are those since the last call. Empty where there is no port. `state`: what is known of GPUs
  /// and the processes on them, `recorded`: processes under the probe.
  std::vector<model::RdmaPort> look(const hardware::Latest::State& state,
                                    const std::vector<capture::ProcessNow>& recorded);

 private:
  struct Value {
    int64_t ts_ns = 0;
    double value = 0;
  };
  void takeValue(const hardware::Sample& sample, std::vector<model::RdmaPort>& ports);

  const std::string root_;
  std::unique_ptr<hardware::Source> source_;
  bool open_ = false;
  std::map<std::string, Value> before_;  // by metric and part
};

}  // namespace tracesmith::process
