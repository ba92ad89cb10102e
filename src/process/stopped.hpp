// Registers and stacks of the threads of another process. Each thread is stopped alone, and only for as long as it
// takes to copy them.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "process/modules.hpp"
#include "tracesmith/common/status.hpp"

struct user_regs_struct;

namespace tracesmith::process {

/// A thread as it was at one moment.
struct Snapshot {
  bool taken = false;
  std::array<uint64_t, 32> registers{};  ///< by their DWARF numbers
  uint64_t pc = 0;
  int64_t system_call = -1;  ///< that it is in; -1: none, or it cannot be told
  uint64_t stack_pointer = 0;
  uint64_t stack_begin = 0;  ///< address of the first byte of `stack`
  std::string stack;
  int64_t stopped_ns = 0;  ///< at most: from when it was last seen to run until it was let go
};

constexpr size_t kMostStackBytes = 256 << 10;

/// How many registers the unwinder wants; 0: not on this architecture.
extern const unsigned kRegisters;

/// Registers, and the stack above the stack pointer, of a thread that stands still.
void fillSnapshot(pid_t pid, const user_regs_struct& registers, Snapshot& snapshot);

class Stopper {
 public:
  /// One snapshot for each task; not taken of threads that have ended, or that do not stop in time (in an
  /// uninterruptible wait, or without a processor). `while_stopped` runs while the thread stands still. Fails if it may
  /// not stop any.
  Result<std::vector<Snapshot>> snapshots(pid_t pid, const std::vector<Task>& tasks,
                                          const std::function<void(size_t task)>& while_stopped);

 private:
  std::string room_;  // for a stack, kept for the next time
};

/// For who does it once.
inline Result<std::vector<Snapshot>> snapshots(pid_t pid, const std::vector<Task>& tasks,
                                               const std::function<void(size_t task)>& while_stopped) {
  return Stopper().snapshots(pid, tasks, while_stopped);
}

}  // namespace tracesmith::process
