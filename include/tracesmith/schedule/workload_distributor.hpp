// Splits work over devices: equally, by capacity, layers by memory. The shares always add up to the work.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::schedule {

/// How much one device may get at most.
struct WorkLimits {
  std::optional<uint64_t> max_per_device;    ///< of every device; absent: no limit
  std::map<std::string, uint64_t> max_of{};  ///< of single devices
};

struct Share {
  std::string device_id;
  uint64_t count = 0;
  bool operator==(const Share&) const = default;
};

/// By device, with what it is worth: capacity, memory.
using Weights = std::vector<std::pair<std::string, double>>;

/// Shares come in the order of the devices. What does not fit within the limits is an error, not left out.
class TRACESMITH_API WorkloadDistributor {
 public:
  /// Equal shares; the first devices get one more if they do not come out even.
  static Result<std::vector<Share>> uniform(uint64_t count, const std::vector<std::string>& devices,
                                            const WorkLimits& limits = {});
  /// In proportion to the capacities, rounded by largest remainder. A device of capacity 0 gets nothing.
  static Result<std::vector<Share>> byCapacity(uint64_t count, const Weights& capacities,
                                               const WorkLimits& limits = {});
  /// Layers of a model in proportion to memory, at least one for each device. `layer_bytes`: what a layer needs; 0: not
  /// known, so that memory is no limit.
  static Result<std::vector<Share>> layersByMemory(uint64_t layers, const Weights& memory_bytes,
                                                   uint64_t layer_bytes = 0);
};

}  // namespace tracesmith::schedule
