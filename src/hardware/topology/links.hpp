// Links between two GPUs, for those who draw and record them.
#pragma once

#include "hardware/inventory.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {

/// The best direct connection of two GPUs.
GPULink directLink(const hardware::Gpu& a, const hardware::Gpu& b);

}  // namespace tracesmith::cluster
