// Matrix products of a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hardware/bench/bench.hpp"
#include "hardware/nvidia/cuda.hpp"

namespace tracesmith::hardware {

/// Seconds of one piece of work on the GPU's stream, once for each repetition; the GPU must be the current one.
Result<std::vector<double>> timeOnGpu(const cuda::Driver& driver, size_t gpu, int repetitions, double seconds,
                                      const std::function<int()>& work);

/// Large square products in the types the GPU has.
void benchMatrix(const BenchOptions& options, const cuda::Driver& driver, size_t gpu, const cublaslt::Functions& cublas,
                 const std::string& part, Capability& out);

}  // namespace tracesmith::hardware
