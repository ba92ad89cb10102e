// Python and native frames of a thread, in the order of the calls.
#pragma once

#include <vector>

#include "process/backtrace.hpp"
#include "process/python.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {

/// Where the interpreter runs Python code: from 3.11 on a whole run of frames.
bool isLoop(const NativeFrame& frame);

/// The innermost first: `native(i)` for each of the native frames, but `python(i)` for the frames of `raw` that the
/// interpreter's loop runs where one of its calls is (`loop(i)`).
template <typename Loop, typename Native, typename Python>
void inOrder(const RawStack& raw, size_t natives, Loop loop, Native native, Python python) {
  size_t loops = 0, runs = 0, next = 0;
  for (size_t i = 0; i < natives; ++i) loops += loop(i);
  for (const RawFrame& f : raw.frames) runs += f.entry;
  // A loop that has just been called has no frame yet: the innermost ones are then without.
  size_t without = loops > runs ? loops - runs : 0;
  for (size_t i = 0; i < natives; ++i) {
    if (!loop(i) || without > 0) {
      without -= without > 0 && loop(i);
      native(i);
      continue;
    }
    while (next < raw.frames.size()) {
      python(next);
      if (raw.frames[next++].entry) break;
    }
  }
  for (; next < raw.frames.size(); ++next) python(next);  // beyond the part of the stack that was copied
}

/// Into thread.frames: each call of the interpreter's loop is replaced by the Python frames that it runs. `python`
/// null: there is none. `locals`: the frames' variables, too, of the innermost ones.
void merge(PythonStacks* python, const RawStack& raw, const std::vector<NativeFrame>& native, ThreadStack& thread,
           bool locals = false);

}  // namespace tracesmith::process
