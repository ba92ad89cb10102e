#include "process/backtrace.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "hardware/process.hpp"
#include "process/memory.hpp"
#include "process/merge.hpp"
#include "process/modules.hpp"
#include "process/own_stacks.hpp"
#include "process/python.hpp"
#include "process/stopped.hpp"
#include "process/thread_ids.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {
namespace {

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
                   PythonSide& side, const BacktraceOptions& options, Stacks& stacks) {
  Result<std::unique_ptr<Unwinder>> unwinder = Unwinder::create(pid, mapped, {.sources = options.sources});
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
    merge(side.stacks ? &*side.stacks : nullptr, raw[i], native, thread, options.locals);
  }
  if (not_taken > 0)
    stacks.notes.push_back(
        "native frames of " + std::to_string(not_taken) + (not_taken == 1 ? " thread" : " threads") +
        " are missing: ended meanwhile, or did not stop in time (an uninterruptible wait, a busy machine)");
  return {};
}

Result<Stacks> readStacks(pid_t pid, const BacktraceOptions& options) {
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
  TS_TRY(mayBeRead(pid, *mapped));
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
    merge(&*side.stacks, side.stacks->walkRunning(side.threads[i]), {}, alone, options.locals);
    stacks.threads.push_back(std::move(alone));
  }
  side.threads_of.resize(all.size());
  const bool with_native =
      !options.python_only && (options.native || stacks.python_version.empty());  // else there would be no frames
  Status native = with_native ? readStopped(pid, *mapped, all, cache, side, options, stacks) : Status();
  if (!native) stacks.notes.push_back(native.message());
  if (!with_native || !native)
    for (size_t i = 0; i < all.size(); ++i)
      if (side.threads_of[i])
        merge(&*side.stacks, side.stacks->walkRunning(side.threads[*side.threads_of[i]]), {}, stacks.threads[i],
              options.locals);
  if (all.empty() || tasks(pid).empty())
    return Status::notFound("process " + std::to_string(pid) + " ended while it was read");
  return stacks;
}

}  // namespace

Result<Stacks> backtrace(pid_t pid, const BacktraceOptions& options) {
  Result<Stacks> stacks = readStacks(pid, options);
  if (stacks || stacks.status().code() != Code::kForbidden) return stacks;
  Result<Stacks> told = askForStacks(pid);
  if (told || told.status().code() == Code::kNotFound) return told ? std::move(told) : std::move(stacks);
  return Status::forbidden(stacks.status().message() + "; " + told.status().message());
}

}  // namespace tracesmith::process
