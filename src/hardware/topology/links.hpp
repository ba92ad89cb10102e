// Links between two GPUs, for those who draw and record them.
#pragma once

#include <string_view>
#include <vector>

#include "hardware/inventory.hpp"
#include "model/travel.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {

/// The best direct connection of two GPUs.
GPULink directLink(const hardware::Gpu& a, const hardware::Gpu& b);
/// The type that linkTypeName() calls so; None if there is none.
GPULinkType linkTypeOf(std::string_view name);
/// Of a node that told how many GPUs it has, and their links.
GPUTopologyInfo topologyOf(size_t gpus, const std::vector<model::LinkStatus>& links);

}  // namespace tracesmith::cluster
