// A thread that is looked at again and again: whether it is still where it was.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "process/memory.hpp"
#include "process/modules.hpp"
#include "process/python.hpp"
#include "process/stopped.hpp"
#include "process/task_activity.hpp"

namespace tracesmith::process {

/// Where a thread that waits was stopped. Being stopped makes it run for a moment, until it waits again; this tells
/// without another stop that it does.
class WaitingPlace {
 public:
  explicit WaitingPlace(const Snapshot& snapshot);
  /// Whether it waits with the same stack, byte for byte.
  bool still(pid_t pid, const TaskActivity& activity) const;

 private:
  uint64_t stack_pointer_, pc_;
  size_t size_, hash_;  // of the stack
};

struct WatchedThread {
  std::optional<PythonThread> python;
  std::optional<Task> task;
  size_t number_in_list = 0;               // of Python's threads
  size_t number = 0;                       // ThreadSample::thread
  int quiet = 0;                           // looks in a row at which it had not run
  std::unique_ptr<TaskActivity> activity;  // of the task
  std::optional<bool> on_cpu;
  bool known = false;  // `stack` is where it was at the last look
  uint32_t stack = 0;
  std::optional<WaitingPlace> place;  // where it was stopped since it last ran by itself
  RepeatedMemory::Parts pages[2];     // of the two readings
  std::optional<uint64_t> root;       // code of its outermost frame; 0: it had none
  int other_roots = 0;                // looks in a row that found another one

  uint64_t identity() const {
    return task ? static_cast<uint64_t>(task->tid) : python ? python->state ^ (python->id << 1) : 0;
  }
  /// Whether it is where it was, because it has not run since the last look; otherwise its state is read.
  bool stays(pid_t pid);
};

}  // namespace tracesmith::process
