// The stacks of several processes, looked at many times a second for a while.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/stack_sampler.hpp"
#include "trace/stack_counts.hpp"

namespace tracesmith::process {

struct SamplingOptions {
  double seconds = 10, rate = 100;
  bool native = false;
  bool python_only = false;  ///< a process without Python is none of those to be sampled: no thread is ever stopped
  bool waits = false;        ///< goes on without processes: some may come
};

/// A process that is sampled, beside what StackCounts has of it.
struct SampledProcess {
  std::string python_version, note, problem;  ///< problem: why it could not be sampled, or not to the end
  uint64_t threads_missed = 0;                ///< samples of single threads
  bool ended = false;
};

/// Where samples go besides being counted. `thread`: of StackCounts::threads.
class SampleSink {
 public:
  virtual ~SampleSink() = default;
  /// A new thread or process is in the counts before its first sample comes.
  virtual Status sample(int64_t ts, uint32_t thread, const ThreadSample& sample) = 0;
  /// All samples of this moment have come.
  virtual Status lookEnds(int64_t ts) = 0;
};

class Sampling {
 public:
  explicit Sampling(const SamplingOptions& options) : options_(options) {}

  /// Fails if it cannot be sampled; it is in the list all the same, with its problem.
  Status add(pid_t pid, std::optional<int64_t> rank, const std::string& node);
  /// Until the time is over, `stop` is set or all processes have ended. `sink` may be null. `progress` is told after
  /// every look how far it is, from 0 to 1; it may add processes.
  Status run(const std::atomic<bool>& stop, SampleSink* sink, const std::function<void(double)>& progress);

  const trace::StackCounts& counts() const { return counts_; }
  const std::vector<SampledProcess>& processes() const { return processes_; }  ///< as in the counts
  double cpuSeconds() const { return cpu_seconds_; }                           ///< that sampling itself took
  int64_t startNs() const { return start_ns_; }
  const SamplingOptions& options() const { return options_; }

 private:
  size_t open() const;
  Status look(size_t process, int64_t ts, SampleSink* sink);
  /// A thread in the counts, and where its last sample was counted.
  struct Slot {
    std::optional<uint32_t> thread;
    uint32_t stack = 0;
    trace::StackCounts::Count* count = nullptr;
  };
  Slot& slotOf(size_t process, const ThreadSample& sample);

  const SamplingOptions options_;
  trace::StackCounts counts_;
  std::vector<SampledProcess> processes_;
  std::vector<std::unique_ptr<StackSampler>> samplers_;  // null: ended, or it could not be opened
  std::vector<std::vector<Slot>> slots_;                 // of each process, by ThreadSample::thread
  std::vector<ThreadSample> samples_;
  double cpu_seconds_ = 0;
  int64_t start_ns_ = 0;
};

}  // namespace tracesmith::process
