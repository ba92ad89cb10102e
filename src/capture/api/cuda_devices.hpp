// The GPUs of this process, as libcuda reports them.
#pragma once

#include <vector>

#include "tracesmith/common/types.hpp"

namespace tracesmith::capture {

/// 0 without a driver or without a GPU.
int cudaDeviceCount();
std::vector<DeviceInfo> cudaDevices();

}  // namespace tracesmith::capture
