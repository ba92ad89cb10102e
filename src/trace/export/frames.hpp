// Telemetry of a session as frames: the JSON that gswarm's users know, with the times of the nodes on the common clock
// and correct units. What was not measured is null.
#pragma once

#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::trace {

/// Reads the table `metrics` of a trace and writes NAME.json, whole or absent.
/// A frame is one sampling interval; its arrays are as long as the cluster has GPUs, in the order of gpu_id.
Status writeFrames(const std::string& trace, const std::string& path);

}  // namespace tracesmith::trace
