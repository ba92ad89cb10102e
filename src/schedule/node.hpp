// The GPUs of a node as devices: from what was found there, what was measured there, and how they are connected.
#pragma once

#include <string>

#include "hardware/capability.hpp"
#include "hardware/inventory.hpp"
#include "model/travel.hpp"
#include "tracesmith/schedule/gpu_clustering_manager.hpp"

namespace tracesmith::schedule {

/// "node-a:3"
std::string deviceId(const std::string& node, int64_t index);

GPUDevice deviceOf(const hardware::Inventory& inventory, const hardware::Gpu& gpu,
                   const hardware::Capability& capability);

/// This node: its GPUs, and the connections between them, measured ones where there are.
Status registerNode(GPUClusteringManager& manager, const hardware::Inventory& inventory,
                    const hardware::Capability& capability);
/// A node that an agent told a master about.
Status registerNode(GPUClusteringManager& manager, const model::NodeStatus& node);
/// What the node last reported, `age_s` ago. A GPU whose report is impossible has that as its problem. Reports of GPUs
/// that are not registered are left out.
Status recordNode(GPUClusteringManager& manager, const model::NodeReport& report, double age_s, int64_t now_ns = 0);

}  // namespace tracesmith::schedule
