// GPUTopology is part of the hardware layer; it is found here too, where requirement 1 names it.
#pragma once

#include "tracesmith/hardware/gpu_topology.hpp"
