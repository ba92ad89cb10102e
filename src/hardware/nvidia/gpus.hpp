// NVIDIA's GPUs of this node.
#pragma once

#include "hardware/inventory.hpp"
#include "hardware/nvidia/nvml.hpp"

namespace tracesmith::hardware {

/// Adds the GPUs, their links and how near they are to each other. A GPU that does not answer is there with its
/// problem.
void findNvidia(const nvml::Session& nvml, Inventory& inventory);
/// "00000000:18:00.0" → "0000:18:00.0", as sysfs writes it.
std::string pciName(const nvml::PciInfo& pci);

}  // namespace tracesmith::hardware
