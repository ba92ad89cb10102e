// CPUs, memory, network and disks of this node, and where things are on PCIe.
#pragma once

#include "hardware/inventory.hpp"

namespace tracesmith::hardware {

/// Fills in everything but GPUs.
void findMachine(const std::string& root, Inventory& inventory);
/// Fills in NUMA nodes of GPUs, pairs NVML did not judge, and how near GPUs are to NICs, from sysfs.
void findNearness(const std::string& root, Inventory& inventory);
/// A disk one can touch: not a loop device, a RAM disk or a partition.
bool isDisk(const std::string& root, const std::string& block_device);

}  // namespace tracesmith::hardware
