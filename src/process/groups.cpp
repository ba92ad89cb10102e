#include "process/groups.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <thread>

#include "base/parallel.hpp"
#include "process/modules.hpp"
#include "process/vitals.hpp"

namespace tracesmith::process {
namespace {

std::string_view fileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Our own functions around those of torch.
bool isHook(const Frame& f) {
  return f.python && (f.file.find("/tracesmith_hooks/") != std::string::npos ||
                      f.file.find("/tracesmith/hooks/") != std::string::npos);
}

/// Whether a frame belongs to an installed library, and not to the program itself.
bool ofLibrary(const Frame& f) {
  return !f.python || isHook(f) || f.file.find("/site-packages/") != std::string::npos ||
         f.file.find("/dist-packages/") != std::string::npos || f.file.find("/lib/python3") != std::string::npos ||
         f.file.starts_with("<frozen ") || f.file.empty();
}

/// Functions that only call another one: naming them would say nothing.
bool onlyCalls(const Frame& f) {
  if (isHook(f)) return true;
  const std::string_view name = std::string_view(f.function).substr(f.function.rfind('.') + 1);
  for (const char* other : {"wrapper", "wrapped", "inner", "_fn", "decorate_context", "__call__", "_call_impl",
                            "_wrapped_call_impl", "_bootstrap", "_bootstrap_inner", "run"})
    if (name == other) return true;
  return false;
}

/// Which frame to name: the outermost of those that the innermost frame of the program called, if one says anything.
std::optional<size_t> namedFrame(const std::vector<Frame>& frames) {
  if (frames.empty()) return std::nullopt;
  size_t own = 0;
  while (own < frames.size() && ofLibrary(frames[own])) ++own;
  if (own == frames.size()) return 0;
  for (size_t i = own; i-- > 0;)
    if (frames[i].python && !onlyCalls(frames[i])) return i;
  return own;
}

std::string place(const Frame& f) {
  return std::string(fileName(f.file)) + (f.line ? ":" + std::to_string(*f.line) : "");
}

}  // namespace

size_t tellingThread(const Stacks& process) {
  for (size_t i = 0; i < process.threads.size(); ++i)
    if (process.threads[i].python && !process.threads[i].frames.empty()) return i;
  return 0;
}

std::string whereText(const StackGroup& g) {
  return g.what + (g.place.empty() ? "" : (g.own ? ", " : ", called from ") + g.place);
}

std::vector<StackGroup> groupStacks(const std::vector<Stacks>& processes) {
  std::map<std::string, StackGroup> groups;
  for (size_t p = 0; p < processes.size(); ++p) {
    const size_t thread = tellingThread(processes[p]);
    static const std::vector<Frame> kNone;
    const std::vector<Frame>& frames =
        thread < processes[p].threads.size() ? processes[p].threads[thread].frames : kNone;
    const std::optional<size_t> named = namedFrame(frames);
    std::string key = processes[p].job + '\n';
    if (named)
      for (size_t i = frames.size(); i-- > *named;) {
        if (!frames[i].python && *named != i) continue;
        key += frames[i].function + '\0' + frames[i].file;
        if (i != *named || !ofLibrary(frames[i])) key += '\0' + std::to_string(frames[i].line.value_or(0));
        key += '\n';
      }
    StackGroup& group = groups[key];
    if (group.members.empty()) {
      group.thread = thread;
      if (named) {
        const Frame& f = frames[*named];
        group.what = f.function.empty() ? place(f) : f.function;
        group.own = !ofLibrary(f);
        for (size_t i = *named; i < frames.size() && group.place.empty(); ++i)
          if (!ofLibrary(frames[i])) group.place = place(frames[i]);
      } else {
        group.what = "no frames";
      }
    }
    group.members.push_back(p);
  }
  std::vector<StackGroup> out;
  for (auto& [key, group] : groups) out.push_back(std::move(group));
  std::stable_sort(out.begin(), out.end(),
                   [](const StackGroup& a, const StackGroup& b) { return a.members.size() > b.members.size(); });
  return out;
}

std::vector<pid_t> pythonProcesses(size_t& refused) {
  std::vector<pid_t> found;
  for (const int64_t id : processIds("")) {
    const auto pid = static_cast<pid_t>(id);
    if (pid == ::getpid() || !looksLikePython("", pid)) continue;
    const Result<std::vector<Module>> mapped = modules(pid);
    if (mapped)
      found.push_back(pid);
    else
      refused += mapped.status().code() == Code::kForbidden;
  }
  return found;
}

std::vector<Stacks> backtraces(const std::vector<pid_t>& pids, const BacktraceOptions& options, size_t& refused) {
  std::vector<std::optional<Result<Stacks>>> read(pids.size());
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 16);
  parallelFor(pids.size(), threads, [&](size_t i, size_t) { read[i].emplace(backtrace(pids[i], options)); });
  std::vector<Stacks> out;
  for (std::optional<Result<Stacks>>& r : read) {
    Result<Stacks>& result = *r;
    if (result)
      out.push_back(std::move(*result));
    else
      refused += result.status().code() == Code::kForbidden;
  }
  return out;
}

}  // namespace tracesmith::process
