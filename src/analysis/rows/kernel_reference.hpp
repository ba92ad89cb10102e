// How long each kernel takes as a rule, from a sample of the whole trace: the yardstick a rank is held against.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

class KernelReference {
 public:
  /// Samples blocks of device rows, spread evenly over the file.
  static KernelReference sample(const trace::Reader& reader, const trace::NameNumbers& names);
  struct Mean {
    double mean = 0;  ///< ns
    uint32_t count = 0;
    int64_t process = 0;   ///< who launched the first
    bool several = false;  ///< others launch it too: it can be compared
  };
  /// Kernels with this name and launch shape; nullptr: none was sampled.
  const Mean* of(uint32_t name, uint32_t shape) const {
    auto it = means_.find(key(name, shape));
    return it == means_.end() ? nullptr : &it->second;
  }
  /// All rows are of one process: there is nobody to compare it with but itself.
  bool alone() const { return alone_; }

 private:
  static uint64_t key(uint32_t name, uint32_t shape) { return static_cast<uint64_t>(name) << 32 | shape; }
  std::unordered_map<uint64_t, Mean> means_;
  bool alone_ = true;
};

}  // namespace tracesmith::analysis
