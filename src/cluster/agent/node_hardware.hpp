// What a node tells of its hardware when it registers: GPUs, how they are connected, versions, what was measured.
#pragma once

#include "hardware/inventory.hpp"
#include "model/travel.hpp"

namespace tracesmith::cluster {

/// Looks at everything once: may take as long as a driver call hangs. Only the fields of the hardware are filled.
model::NodeDescription describeHardware(const hardware::Places& places);
/// Those fields, into a description whose other fields stay.
void copyHardware(const model::NodeDescription& from, model::NodeDescription& to);

}  // namespace tracesmith::cluster
