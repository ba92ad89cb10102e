// The rows of a simulated job, window by window: see job.hpp for why in windows.
#pragma once

#include <vector>

#include "capture/sim/job.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::sim {

/// Ids of all strings of a job in one trace.
struct JobStrings {
  JobStrings(const Job& job, trace::Writer& writer);

  std::vector<int64_t> other_kernels;  ///< on GPUs of the other model, where there are any
  std::vector<int64_t> nodes, kernels, shapes, cpu_ops, apis, ranges, copies, collective_kernels;
  std::vector<int64_t> comms[kGroups], ops;  // ops: by collective
  int64_t collective_shape, memset;
  int64_t dtype, algo, proto;
  int64_t power, clock, utilization, watt, mhz, percent;
};

/// Simulates windows of steps. Rows of different ranks may be taken by different threads.
class JobRows {
 public:
  explicit JobRows(const Job& job);

  /// Simulates the next window for all ranks; false when the job has ended.
  bool nextWindow(size_t threads);
  int firstStep() const { return first_step_; }
  int lastStep() const { return first_step_ + window_steps_; }  ///< one past the last
  int64_t stepStart(int step, int rank) const { return step_start_[index(step, rank)]; }
  int64_t stepEnd(int step, int rank) const { return step_end_[index(step, rank)]; }
  const CollectiveTime& collective(int step, int rank, size_t k) const {
    return times_[static_cast<size_t>(step - first_step_)][static_cast<size_t>(rank) * job_.collectives().size() + k];
  }
  /// Events this rank may still give in this step, so that the whole trace has exactly as many as were asked for.
  uint64_t quota(int step, int rank) const;

  /// Calls sink(event, step) for every event of the window on this rank, except the step's own range.
  void events(int rank, const std::function<void(const SimEvent&, int step)>& sink) const;

 private:
  size_t index(int step, int rank) const {
    return static_cast<size_t>(step - first_step_) * static_cast<size_t>(job_.config().ranks) +
           static_cast<size_t>(rank);
  }

  const Job& job_;
  int first_step_ = 0, window_steps_ = 0, max_window_;
  std::vector<RankState> states_;                   // at the end of the window
  std::vector<RankState> window_states_;            // at its start
  std::vector<std::vector<CollectiveTime>> times_;  // [step][rank × collectives + k]
  std::vector<int64_t> step_start_, step_end_;
};

/// Turns simulated events of one rank into rows.
class EventRows {
 public:
  EventRows(const Job& job, const JobStrings& strings, int rank);
  trace::EventRow row(const SimEvent& event, int step) const;
  /// The range ProfilerStep#n.
  trace::EventRow stepRow(int64_t start, int64_t end, int step, int64_t name) const;

 private:
  trace::EventRow base(int64_t start, int64_t end, int step) const;
  const JobStrings& strings_;
  const std::vector<int64_t>& kernels_;
  ClockTruth clock_;
  int64_t node_, rank_, pid_, device_;
};

int64_t pidOf(const Job& job, int rank);
/// Of a communicator: world, node0-tp; of a job that is laid out tp0, dp0, pp0.
std::string groupName(const Job& job, Group group, int id);

/// Writes the whole job as a trace. The same bytes for the same config.
Status synthesize(const JobConfig& config, const std::string& path, size_t threads);

}  // namespace tracesmith::sim
