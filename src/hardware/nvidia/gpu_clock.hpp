// A GPU's own clock (%globaltimer) against this machine's raw clock: a kernel of one thread reads it.
#pragma once

#include <cstdint>

#include "hardware/nvidia/cuda.hpp"

namespace tracesmith::cuda {

struct ClockReading {
  int64_t raw_ns = 0;         ///< when, raw clock
  int64_t offset_ns = 0;      ///< GPU − raw
  int64_t bound_ns = 0;       ///< the error is at most this
  int64_t round_trip_ns = 0;  ///< from the launch until the host saw the answer
};

/// The best of a few readings. Makes a context on the GPU; `gpu` is CUDA's number of it.
Result<ClockReading> readGpuClock(Driver& driver, size_t gpu);

}  // namespace tracesmith::cuda
