// The name programs include it by; it belongs to the folder hardware.
#pragma once

#include "tracesmith/hardware/gpu_topology.hpp"
