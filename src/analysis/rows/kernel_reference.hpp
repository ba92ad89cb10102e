// How long each kernel takes as a rule, from a sample of the whole trace: the yardstick a rank is held against.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analysis/rows/device_models.hpp"
#include "trace/name_numbers.hpp"
#include "tracesmith/trace/reader.hpp"

namespace tracesmith::analysis {

class KernelReference {
 public:
  /// Samples blocks of device rows, spread evenly over the file. Each model of GPU has its own yardstick.
  static KernelReference sample(const trace::Reader& reader, const trace::NameNumbers& names,
                                const DeviceModels& models = {});
  struct Mean {
    double mean = 0;  ///< ns
    uint32_t count = 0;
    int64_t process = 0;   ///< who launched the first
    bool several = false;  ///< others launch it too: it can be compared
  };
  /// Kernels with this name and launch shape; nullptr: none was sampled.
  const Mean* of(uint32_t name, uint32_t shape, uint32_t model = 0) const {
    if (model >= models_.size()) return nullptr;
    auto it = models_[model].means.find(key(name, shape));
    return it == models_[model].means.end() ? nullptr : &it->second;
  }
  /// All rows of this model are of one process: there is nobody to compare it with but itself.
  bool alone(uint32_t model = 0) const { return model >= models_.size() || models_[model].alone; }

 private:
  static uint64_t key(uint32_t name, uint32_t shape) { return static_cast<uint64_t>(name) << 32 | shape; }
  struct Model {
    std::unordered_map<uint64_t, Mean> means;
    int64_t first = trace::kNull;  // process
    bool alone = true;
  };
  std::vector<Model> models_;
};

}  // namespace tracesmith::analysis
