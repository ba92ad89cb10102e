// What every thread of a process is doing right now: its Python and native frames, read from outside.
#pragma once

#include <sys/types.h>

#include "model/travel.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::process {

using Frame = model::StackFrame;
using model::Stacks;
using model::ThreadStack;

struct BacktraceOptions {
  bool native = false;       ///< native frames, too; of a process without Python they are always read
  bool sources = false;      ///< source lines and inlined functions of native code; takes a while
  bool python_only = false;  ///< no thread is stopped, also of a process without Python
  bool locals = false;       ///< variables of Python frames
};

/// Fails if there is no such process, or if it may not be read.
Result<Stacks> backtrace(pid_t pid, const BacktraceOptions& options = {});

}  // namespace tracesmith::process
