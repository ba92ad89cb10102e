// The figures users know from Holistic Trace Analysis, computed as HTA computes them (docs/analysis.md): whole µs, the
// last profiler step left out, communication known by the names HTA knows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tracesmith::analysis {

struct HtaTemporal {
  int64_t rank, idle_us, compute_us, non_compute_us, kernel_time_us;
};
struct HtaOverlap {
  int64_t rank, overlap_us, comm_us;  ///< the percentage is NULL where there is no communication
};
struct HtaKernel {
  int64_t rank;
  std::string type, name;
  double sum_us, max_us, min_us, mean_us, std_us;  ///< NaN: too short for whole µs
};
struct HtaIdle {
  int64_t rank, stream, host_wait_us, kernel_wait_us, other_us;
};
struct HtaQueue {
  int64_t rank, stream;
  uint64_t count;
  double mean, std;
  int64_t max;
};
struct HtaLaunch {
  int64_t rank;
  uint64_t count, short_kernels, runtime_outliers, delay_outliers;
  double cpu_us_mean, gpu_us_mean, delay_us_mean;
  int64_t delay_us_max;
};
struct HtaStraggler {
  int64_t rank;
  uint64_t flags;  ///< iterations in which it was among the latest to start
};

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
