// Which model of GPU each rank runs on: ranks are compared with ranks on the same model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

class DeviceModels {
 public:
  /// Reads `devices`. Which of them a rank has, is told later.
  static Result<DeviceModels> load(const trace::Reader& reader, const trace::NameNumbers& names);
  /// The trace has GPUs of several models: only then is there anything to tell.
  bool several() const { return several_; }
  /// A node with one model needs no device. Nothing is set where the model is not known.
  void place(int64_t process, const std::string& node, int64_t device);
  /// 0 where the job has one model, or the model is not known.
  uint32_t of(int64_t process) const {
    auto it = of_process_.find(process);
    return it == of_process_.end() ? 0 : it->second;
  }
  /// Models that ranks run on, by number; the first is for ranks whose model is not known.
  const std::vector<std::string>& names() const { return names_; }
  /// Whether ranks run on different models.
  bool mixed() const;
  /// Of a device of a node; empty: not known.
  const std::string& nameOf(const std::string& node, int64_t device) const;
  size_t gpusOf(const std::string& node) const;

  /// How many times as long one model may take for the same kernels as another, by what `tracesmith bench` measured on
  /// both: the larger of what computation and memory say, because kernels are limited by one or the other. NaN: it was
  /// not measured.
  double measuredRatio(uint32_t slow, uint32_t fast) const;

 private:
  bool several_ = false;
  std::map<std::string, std::map<int64_t, std::string>> devices_;  // by node and index
  struct Speed {
    double compute, memory;
  };
  std::map<std::string, std::vector<Speed>> speeds_;  // by model
  std::map<int64_t, uint32_t> of_process_;
  std::vector<std::string> names_ = {""};
};

}  // namespace tracesmith::analysis
