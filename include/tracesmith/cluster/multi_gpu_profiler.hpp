// The name programs include it by; it belongs to the folder capture.
#pragma once

#include "tracesmith/capture/multi_gpu_profiler.hpp"
