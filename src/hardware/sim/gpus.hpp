// Simulated GPUs: for demonstrations and tests of scale. Their vendor is "simulated" everywhere.
#pragma once

#include <memory>

#include "hardware/inventory.hpp"
#include "hardware/source.hpp"

namespace tracesmith::hardware {

/// Adds `count` simulated GPUs of one node: eight share an NVSwitch, as in a DGX H100.
void findSimulated(int count, Inventory& inventory);
/// Telemetry of one of them: a training job with steps, warm-up and a GPU that is warmer than the rest.
std::unique_ptr<Source> simulatedSource(const Gpu& gpu);

}  // namespace tracesmith::hardware
