// The files that are mapped into a process, and its threads, as /proc tells.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

/// A program or library in a process.
struct Module {
  std::string path;             ///< as the process names it
  uint64_t begin = 0, end = 0;  ///< from its first mapping to its last
  uint64_t offset = 0;          ///< in the file, of the first mapping
  bool deleted = false;         ///< the file was replaced or removed
};

inline constexpr const char* kVdso = "[vdso]";  ///< path of the library that the kernel gives to every process

/// Programs and libraries, by address. Fails with one sentence that says what to change where it is not permitted.
Result<std::vector<Module>> modules(pid_t pid);

/// Where this process finds a file of another one, which may be in a container.
std::string openPath(pid_t pid, const Module& module);

struct Task {
  pid_t tid = 0;
  pid_t inner = 0;  ///< its id in its own PID namespace, which is what it knows itself by
  std::string name;
  char state = 0;  ///< 'R', 'S', 'D', 'T' …; 0: it has ended
};

/// By thread id.
std::vector<Task> tasks(pid_t pid);

/// Whether the memory of a process with these modules may be read.
Status mayBeRead(pid_t pid, const std::vector<Module>& modules);

/// Why another process may not be read, and what to change; `what` says what was refused.
Status notPermitted(pid_t pid, const std::string& what);

}  // namespace tracesmith::process
