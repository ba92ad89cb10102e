// The name programs include it by; it belongs to the folder capture.
#pragma once

#include "tracesmith/capture/nccl_tracker.hpp"
