// Python code, run in a process that is already running.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

struct EvalOptions {
  std::string probe;  ///< its file: it does this in the process
  double timeout_s = 10;
  bool despite_seccomp = false;
  const std::atomic<bool>* stop = nullptr;  ///< nobody waits for the answer any more once it is set
};

struct Evaluated {
  std::optional<std::string> result;  ///< of the last expression, as repr() has it
  std::string output;                 ///< what the code printed
  std::string exception;              ///< its traceback; empty: there was none
  bool truncated = false;             ///< one of them was too long
};

/// In the process's main module, on a thread of its own, with the interpreter's lock. Fails if no interpreter is in the
/// process, it does not let the thread in, or the code does not end in time; Python code is then interrupted.
Result<Evaluated> evaluate(pid_t pid, const std::string& code, const EvalOptions& options);

}  // namespace tracesmith::process
