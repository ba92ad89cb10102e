// Python and native frames of a thread, in the order of the calls.
#pragma once

#include <vector>

#include "process/backtrace.hpp"
#include "process/python.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {

/// Into thread.frames: each call of the interpreter's loop is replaced by the Python frames that it runs. `python`
/// null: there is none. `locals`: the frames' variables, too, of the innermost ones.
void merge(PythonStacks* python, const RawStack& raw, const std::vector<NativeFrame>& native, ThreadStack& thread,
           bool locals = false);

}  // namespace tracesmith::process
