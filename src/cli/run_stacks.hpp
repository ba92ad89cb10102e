// `run --stacks`: samples the stacks of the ranks into the trace, beside the collector.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "process/sampling.hpp"
#include "process/stack_rows.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cli {

class RunStacks {
 public:
  /// Samples the processes that have a ring in this folder, or, as long as there is none, the command itself. The
  /// writer outlives it.
  RunStacks(trace::Writer& writer, std::string ring_folder, pid_t command, double rate);
  ~RunStacks();
  /// Writes what is left. Once.
  Status stop();

 private:
  void run();
  void addNew();

  const std::string folder_;
  const pid_t command_;
  process::Sampling sampling_;
  process::StackRows rows_;
  std::set<pid_t> tried_;
  int64_t begin_ns_ = 0, looked_ns_ = 0;
  std::atomic<bool> stop_{false};
  Status status_;  // read when the thread has ended
  std::thread thread_;
};

}  // namespace tracesmith::cli
