#include "process/merge.hpp"

namespace tracesmith::process {
namespace {

void append(std::vector<Frame>& frames, Frame frame) {
  if (!frames.empty() && frame.python) {
    frame.more = frames.back().more;
    if (frames.back() == frame) {
      ++frames.back().more;
      return;
    }
    frame.more = 0;
  }
  frames.push_back(std::move(frame));
}

constexpr size_t kWithVariables = 64;  // of deeper stacks, callers are shown without

Frame frameOf(PythonStacks& python, const RawFrame& raw, bool locals, ThreadStack& thread) {
  Frame frame;
  frame.python = true;
  if (std::optional<PythonFrame> p = python.resolve(raw)) {
    frame.function = std::move(p->function);
    frame.file = std::move(p->file);
    frame.line = p->line;
    if (locals && thread.frames.size() < kWithVariables)
      for (PythonVariable& v : python.variables(raw)) frame.locals.push_back({std::move(v.name), std::move(v.value)});
  } else {
    thread.changed = true;  // its code object is gone
  }
  return frame;
}

Frame frameOf(const NativeFrame& native) {
  Frame frame;
  frame.function = native.function;
  frame.file = native.file;
  frame.address = native.address;
  frame.source = native.source;
  frame.line = native.line;
  return frame;
}

}  // namespace

bool isLoop(const NativeFrame& frame) { return frame.function.starts_with("_PyEval_EvalFrameDefault"); }

void merge(PythonStacks* python, const RawStack& raw, const std::vector<NativeFrame>& native, ThreadStack& thread,
           bool locals) {
  inOrder(
      raw, native.size(), [&](size_t i) { return python && isLoop(native[i]); },
      [&](size_t i) { append(thread.frames, frameOf(native[i])); },
      [&](size_t i) { append(thread.frames, frameOf(*python, raw.frames[i], locals, thread)); });
  thread.changed |= raw.changed;
  thread.truncated |= raw.truncated;
  thread.damaged |= raw.damaged && !raw.changed;
}

}  // namespace tracesmith::process
