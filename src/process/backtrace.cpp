#include "process/backtrace.hpp"

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "hardware/process.hpp"
#include "process/memory.hpp"
#include "process/modules.hpp"
#include "process/python.hpp"
#include "process/stopped.hpp"
#include "process/thread_ids.hpp"
#include "process/unwind.hpp"

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

Frame frameOf(PythonStacks& python, const RawFrame& raw, ThreadStack& thread) {
  Frame frame;
  frame.python = true;
  if (std::optional<PythonFrame> p = python.resolve(raw)) {
    frame.function = std::move(p->function);
    frame.file = std::move(p->file);
    frame.line = p->line;
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
  return frame;
}

/// Where the interpreter runs Python code: from 3.11 on a whole run of frames.
bool isLoop(const NativeFrame& frame) { return frame.function.starts_with("_PyEval_EvalFrameDefault"); }

/// Each call of the interpreter's loop is replaced by the Python frames that it runs.
void merge(PythonStacks* python, const RawStack& raw, const std::vector<NativeFrame>& native, ThreadStack& thread) {
  size_t loops = 0, runs = 0, next = 0;
  for (const NativeFrame& f : native) loops += isLoop(f);
  for (const RawFrame& f : raw.frames) runs += f.entry;
  // A loop that has just been called has no frame yet: the innermost ones are then without.
  size_t without = loops > runs ? loops - runs : 0;
  for (const NativeFrame& f : native) {
    if (!isLoop(f) || !python || without > 0) {
      without -= without > 0 && isLoop(f);
      append(thread.frames, frameOf(f));
      continue;
    }
    while (next < raw.frames.size()) {
      append(thread.frames, frameOf(*python, raw.frames[next], thread));
      if (raw.frames[next++].entry) break;
    }
  }
  for (; python && next < raw.frames.size(); ++next)  // beyond the part of the stack that was copied
    append(thread.frames, frameOf(*python, raw.frames[next], thread));
  thread.changed |= raw.changed;
  thread.truncated |= raw.truncated;
  thread.damaged |= raw.damaged && !raw.changed;
}

ThreadStack threadOf(const Task& task) {
  ThreadStack thread;
  thread.tid = task.tid;
  thread.name = task.name;
  thread.state = task.state;
  return thread;
}

/// Python's side of a process; nothing in it if there is no interpreter, or its threads cannot be read.
struct PythonSide {
  std::optional<PythonStacks> stacks;
  std::vector<PythonThread> threads;
  std::vector<std::optional<size_t>> tasks;       // by thread
  std::vector<std::optional<size_t>> threads_of;  // by task
};

Status findPython(pid_t pid, const std::vector<Module>& mapped, const std::vector<Task>& all, Memory& memory,
                  PythonSide& side, Stacks& stacks) {
  Result<std::optional<Interpreter>> interpreter = findInterpreter(pid, mapped, memory);
  if (!interpreter) return interpreter.status();
  side.threads_of.resize(all.size());
  if (!*interpreter) return {};
  stacks.python_version = text((*interpreter)->layout.version);
  side.stacks.emplace(**interpreter, memory);
  std::optional<std::vector<PythonThread>> threads = side.stacks->threads();
  if (!threads)
    return Status::unavailable(
        "Python's threads could not be read: the interpreter starts, ends, or its memory is damaged");
  side.threads = std::move(*threads);
  side.tasks = matchTasks(side.threads, all, memory);
  for (size_t i = 0; i < side.tasks.size(); ++i)
    if (side.tasks[i]) side.threads_of[*side.tasks[i]] = i;
  return {};
}

/// Stops one thread after the other and copies what its frames are made of; names and unwinding come afterwards.
Status readStopped(pid_t pid, const std::vector<Module>& mapped, const std::vector<Task>& all, Memory& memory,
                   PythonSide& side, Stacks& stacks) {
  Result<std::unique_ptr<Unwinder>> unwinder = Unwinder::create(pid, mapped);
  if (!unwinder) return unwinder.status();
  constexpr size_t kWhileStopped = 2000;  // Python frames; deeper stacks are read when the thread runs again
  std::vector<RawStack> raw(all.size());
  const auto look = [&](size_t task) {
    if (!side.threads_of[task]) return;
    memory.forget();
    raw[task] = side.stacks->walk(side.threads[*side.threads_of[task]], kWhileStopped);
  };
  Result<std::vector<Snapshot>> taken = snapshots(pid, all, look);
  if (!taken) return taken.status();
  memory.forget();
  size_t not_taken = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    ThreadStack& thread = stacks.threads[i];
    const std::optional<size_t> python = side.threads_of[i];
    if (python && (!(*taken)[i].taken || raw[i].truncated)) raw[i] = side.stacks->walkRunning(side.threads[*python]);
    std::vector<NativeFrame> native;
    if ((*taken)[i].taken) {
      bool complete = false;
      native = (*unwinder)->unwind((*taken)[i], complete);
      thread.truncated |= !complete;
      thread.stopped_ns = (*taken)[i].stopped_ns;
    } else {
      ++not_taken;
    }
    merge(side.stacks ? &*side.stacks : nullptr, raw[i], native, thread);
  }
  if (not_taken > 0)
    stacks.notes.push_back(
        "native frames of " + std::to_string(not_taken) + (not_taken == 1 ? " thread" : " threads") +
        " are missing: ended meanwhile, or did not stop in time (an uninterruptible wait, a busy machine)");
  return {};
}

}  // namespace

Result<Stacks> backtrace(pid_t pid, const BacktraceOptions& options) {
  Result<std::vector<Module>> mapped = modules(pid);
  if (!mapped) return mapped.status();
  if (mapped->empty()) return Status::unsupported("process " + std::to_string(pid) + " has no program mapped");
  Stacks stacks;
  stacks.pid = pid;
  const hardware::ProcessInfo info = hardware::processInfo("", pid);
  stacks.command = info.command;
  stacks.user = info.user;
  stacks.job = info.job;
  if (info.rank != hardware::kUnknown) stacks.rank = info.rank;

  ProcessMemory memory(pid);
  char byte = 0;
  if (!memory.read(mapped->front().begin, &byte, 1)) {
    if (errno == ESRCH) return Status::notFound("process " + std::to_string(pid) + " has ended");
    if (errno == EPERM) return notPermitted(pid, "reading");
  }
  const std::vector<Task> all = tasks(pid);
  for (const Task& t : all) stacks.threads.push_back(threadOf(t));
  PageCache cache(memory);
  PythonSide side;
  if (Status found = findPython(pid, *mapped, all, cache, side, stacks); !found)
    stacks.notes.push_back(found.message());
  for (size_t i = 0; i < side.threads.size(); ++i) {
    ThreadStack alone;
    ThreadStack& thread = side.tasks[i] ? stacks.threads[*side.tasks[i]] : alone;
    thread.python = true;
    thread.holds_gil = side.threads[i].holds_gil;
    if (side.tasks[i]) continue;
    merge(&*side.stacks, side.stacks->walkRunning(side.threads[i]), {}, alone);
    stacks.threads.push_back(std::move(alone));
  }
  side.threads_of.resize(all.size());
  const bool with_native = options.native || stacks.python_version.empty();  // else there would be no frames
  Status native = with_native ? readStopped(pid, *mapped, all, cache, side, stacks) : Status();
  if (!native) stacks.notes.push_back(native.message());
  if (!with_native || !native)
    for (size_t i = 0; i < all.size(); ++i)
      if (side.threads_of[i])
        merge(&*side.stacks, side.stacks->walkRunning(side.threads[*side.threads_of[i]]), {}, stacks.threads[i]);
  if (all.empty() || tasks(pid).empty())
    return Status::notFound("process " + std::to_string(pid) + " ended while it was read");
  return stacks;
}

}  // namespace tracesmith::process
