// The figures users know from Holistic Trace Analysis, computed as HTA computes them (docs/analysis.md): whole µs, the
// last profiler step left out, communication known by the names HTA knows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracesmith/analysis/results.hpp"

namespace tracesmith::analysis {

/// Ranks ascending; a rank that is not known is kNull.
struct Hta {
  std::vector<HtaTemporal> temporal;
  std::vector<HtaOverlap> overlap;
  std::map<std::string, int64_t> kernel_types;  ///< µs of all ranks by "COMPUTATION overlapping COMMUNICATION", …
  std::vector<HtaKernel> kernels;
  std::vector<HtaIdle> idle;
  std::vector<HtaQueue> queue;
  std::vector<HtaLaunch> launch;
  std::vector<HtaStraggler> stragglers;
};

}  // namespace tracesmith::analysis
