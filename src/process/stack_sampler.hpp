// The stacks of one process, read again and again, cheaply: what does not change between two looks is kept.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/stack_counts.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

/// Where one thread was.
struct ThreadSample {
  std::optional<int64_t> tid;
  size_t thread = 0;  ///< the same for the same thread at every look, also without a tid; numbered from 1 on
  std::optional<bool> on_cpu, holds_gil;
  uint32_t stack = 0;  ///< of the table
};

/// One thread of the caller uses it, and the table, which stays the caller's.
///
/// A thread that has not run since the last look is where it was: nothing of it is read. Of more than some hundred
/// threads, those that have not run for a while are asked in turn whether they have. Of a thread that runs while
/// its Python frames are read, what two readings have in common counts: its callers.
class StackSampler {
 public:
  static constexpr size_t kMostFrames = 1024;  ///< callers beyond it are one frame

  /// With `native`, threads that ran since the last look are stopped for a moment. Without Python, it is always so.
  static Result<std::unique_ptr<StackSampler>> open(pid_t pid, bool native, trace::StackTable& table);
  virtual ~StackSampler() = default;

  enum class Outcome { looked, missed, ended };
  /// Of every thread one sample; with Outcome::missed there are none.
  virtual Outcome look(std::vector<ThreadSample>& samples) = 0;
  /// As the kernel knows it; empty: not known.
  virtual std::string nameOf(size_t thread) const = 0;
  virtual const std::string& pythonVersion() const = 0;  ///< empty: not a Python process
  /// Samples that could not be read while everything else could: of threads that changed too fast or did not stop.
  virtual uint64_t threadsMissed() const = 0;
  /// What is missing, and why; empty: nothing.
  virtual const std::string& note() const = 0;
};

}  // namespace tracesmith::process
