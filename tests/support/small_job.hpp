// A small training job with everything under control: ranks that compute and meet in one all-reduce a step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tracesmith::test {

struct SmallJob {
  int ranks = 8, ranks_per_node = 4, steps = 20, kernels = 20;
  std::map<int, double> slow;       ///< rank → its kernels take this many times as long
  int slow_from = 0;                ///< step
  std::set<int> own_shape;          ///< ranks that launch their kernels in a shape of their own
  std::map<int, int64_t> late_ns;   ///< rank → host comes this late to every step
  std::set<int> left_out;           ///< ranks whose rows are not in the trace
  std::map<int, int64_t> clock_ns;  ///< node → its clock is so far ahead
  bool clock_rows = true;           ///< `clocks` says so
  int64_t clock_error_ns = 0;       ///< what `clocks` says is wrong by this, on node 1
  int64_t clock_bound_ns = 1000;    ///< that `clocks` states
  bool step_rows = true, collectives = true, sequence = true, group_rows = true;
  bool restart = false;  ///< halfway the communicator begins anew at sequence 0
  std::string kernel_name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  bool table = true;     ///< collectives are rows of `collectives`, not only kernels
  int64_t lost = 0;      ///< records rank 1 lost
  int never_comes = -1;  ///< rank that does not come to one more all-reduce, in which the others are for 10 s
  int64_t transfer_ns = 100'000;
  std::function<void(class JobWriter&)> more;  ///< further rows
};

/// The writer a SmallJob hands to `more`.
class JobWriter {
 public:
  virtual ~JobWriter() = default;
  virtual void metric(int node, int device, const std::string& name, int64_t ts, double value) = 0;
  virtual void device(int node, int device) = 0;
};

/// Writes the job. Fails the calling test if it cannot.
void writeSmallJob(const std::string& path, const SmallJob& job);

}  // namespace tracesmith::test
