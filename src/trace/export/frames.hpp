// Telemetry of a session as frames: the JSON that gswarm's users know, with the times of the nodes on the common clock
// and correct units. What was not measured is null.
#pragma once

#include <cstdint>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// How every answer names a GPU: node, index on it, and product.
std::string frameGpuId(const std::string& node, int64_t index, const std::string& name);

/// Reads the table `metrics` of a trace and writes NAME.json, whole or absent.
/// A frame is one sampling interval; its arrays are as long as the cluster has GPUs, in the order of gpu_id. Samples
/// that fall into one frame are averaged. The rate of a counter holds for all the time between two readings of it;
/// links of a GPU that are read one by one are added up.
Status writeFrames(const std::string& trace, const std::string& path);

}  // namespace tracesmith::trace
