// Whether a thread runs, asked again and again; and whether a process lives.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hardware/sysfs.hpp"

namespace tracesmith::process {

/// Of one thread of another process. Its files in /proc stay open, as long as there are not too many threads.
class TaskActivity {
 public:
  TaskActivity(pid_t pid, pid_t tid);
  ~TaskActivity();
  TaskActivity(const TaskActivity&) = delete;
  TaskActivity& operator=(const TaskActivity&) = delete;

  /// Whether it has run since this was last asked, and the first time; also where the kernel does not tell.
  bool hasRun();
  /// Whether it runs or wants to; nothing: it has ended.
  std::optional<bool> isOnCpu();
  /// Where it waits in the kernel: its stack pointer and program counter. Nothing: it does not wait, or this may not be
  /// known.
  std::optional<std::pair<uint64_t, uint64_t>> waitsAt() const;

 private:
  std::optional<hardware::SmallFile> fresh(const char* name) const;

  const std::string folder_;
  std::optional<hardware::SmallFile> times_, stat_;  // that stay open
  bool keeps_ = false, times_missing_ = false;
  std::string last_;
};

/// Tells when a process has ended, whoever gets its number next.
class Life {
 public:
  explicit Life(pid_t pid);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  bool ended() const;

 private:
  const pid_t pid_;
  const int fd_;
};

}  // namespace tracesmith::process
