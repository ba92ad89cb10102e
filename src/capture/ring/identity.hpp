// Which process this is, in words that another PID namespace understands. A process id alone means nothing there: every
// container has a process 1. libc only: the probe uses it inside a job.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace tracesmith::ring {

/// Number of this process's PID namespace; 0 if it cannot be known (no /proc).
uint64_t pidNamespace();

/// What /proc tells about a process of this PID namespace.
struct ProcessFacts {
  char state = 0;            // 'R', 'S', 'Z' …; 0: there is no such process, or no /proc
  uint64_t start_ticks = 0;  // when it began: with its id it names one process
};
ProcessFacts processFacts(pid_t pid);

}  // namespace tracesmith::ring
