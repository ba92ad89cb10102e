#pragma once

#include "hardware/inventory.hpp"

namespace tracesmith::hardware {

/// Adds GPUs of AMD, Intel, Qualcomm and Apple, behind those that are there.
void findDrm(const std::string& root, Inventory& inventory);

}  // namespace tracesmith::hardware
