// How long each kernel takes as a rule, from a sample of the whole trace: the yardstick a rank is held against.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analysis/names.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

class KernelReference {
 public:
  /// Samples blocks of device rows, spread evenly over the file.
  static KernelReference sample(const trace::Reader& reader, const Names& names);
  /// Mean duration of kernels with this name and launch shape, ns; 0: none was sampled.
  double of(uint32_t name, uint32_t shape) const {
    auto it = means_.find(key(name, shape));
    return it == means_.end() ? 0 : it->second.mean;
  }

 private:
  struct Mean {
    double mean = 0;
    uint32_t count = 0;
  };
  static uint64_t key(uint32_t name, uint32_t shape) { return static_cast<uint64_t>(name) << 32 | shape; }
  std::unordered_map<uint64_t, Mean> means_;
};

}  // namespace tracesmith::analysis
