// Names as real training produces them: long, templated, many.
#pragma once

#include <string>
#include <vector>

#include "capture/sim/job.hpp"

namespace tracesmith::sim {

/// About 3,000 kernels with a typical duration and launch shape each.
std::vector<KernelModel> kernelModels(Random& random);
std::vector<std::string> cpuOpNames();
/// all_gather, all_reduce, reduce_scatter, in this order.
std::vector<std::string> collectiveKernelNames();

}  // namespace tracesmith::sim
