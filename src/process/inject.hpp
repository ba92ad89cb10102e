// Brings a library into a running process and calls one of its functions there, without harm: at a place where no lock
// is held that it takes, on a stack of its own, and so that the thread then goes on as it would have.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct Injection {
  std::string library;   ///< a file of this machine
  std::string function;  ///< int32_t function(const void* argument); must return soon
  std::string argument;
  int64_t patience_ns = 5'000'000'000;  ///< how long to look for a place, and to wait for the call
  bool despite_seccomp = false;
};

struct Injected {
  int32_t value = 0;      ///< of the function
  pid_t thread = 0;       ///< that was borrowed
  int64_t waited_ns = 0;  ///< until one stood at a good place
  int64_t borrowed_ns = 0;
};

/// kForbidden, kUnsupported, kNotFound, kBusy: why not; the process is as it was. kTimeout: see BorrowedThread::call().
/// Done by a process of its own, the program `tracesmith` started with kInjectCommand: whoever ends this one, even with
/// SIGKILL, must not end that in the middle of a call that a thread of somebody else makes for us.
Result<Injected> inject(pid_t pid, const Injection& injection);

inline constexpr const char* kInjectCommand = "__inject";
/// What that process does: its arguments, the function's argument on standard input, the answer on standard output.
int runInject(int argc, char** argv);
/// Of it, the work. The caller must not be ended meanwhile.
Result<Injected> injectHere(pid_t pid, const Injection& injection);

/// As the process sees a file of this machine: with other mounts (a container) a copy in its /tmp, which `remove` then
/// names as this process sees it; empty: nothing to remove.
struct VisibleFile {
  std::string path, remove;
};
Result<VisibleFile> visibleIn(pid_t pid, const std::string& file);

}  // namespace tracesmith::process
