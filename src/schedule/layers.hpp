// Which layers of a model each stage of a pipeline runs.
#pragma once

#include <cstdint>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::schedule {

struct LayerCost {
  double time_s = 0;        ///< of one micro-batch, forward and backward, on a device of speed 1
  double memory_bytes = 0;  ///< weights, gradients, optimizer state and activations
  double output_bytes = 0;  ///< what goes to the next stage, if it is another
};

struct Stage {
  double speed = 1;             ///< 2: twice as fast as the device the layers were measured on
  double memory_bytes = 0;      ///< 0: no limit
  double link_bytes_per_s = 0;  ///< to the next stage; 0: costs nothing
};

struct LayerPartition {
  std::vector<int64_t> layers;  ///< of each stage, in order; at least 1
  double slowest_s = 0;         ///< of the slowest stage, with its transfer: a micro-batch leaves the pipeline so often
};

/// Divides the layers, in order, so that the slowest stage is as fast as possible. Exact: dynamic programming.
Result<LayerPartition> partitionLayers(const std::vector<LayerCost>& layers, const std::vector<Stage>& stages);

}  // namespace tracesmith::schedule
