#include "process/inject.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/clock.hpp"
#include "hardware/sysfs.hpp"
#include "process/borrowed_thread.hpp"
#include "process/elf.hpp"
#include "process/modules.hpp"
#include "process/safe_place.hpp"
#include "process/unwind.hpp"

namespace tracesmith::process {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStopNs = 100'000'000;         // for one thread to stop
constexpr int64_t kOnlyWaitingNs = 500'000'000;  // how long only threads that wait will do
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

std::string processName(pid_t pid) { return "process " + std::to_string(pid); }

/// A word of /proc/<pid>/status.
int64_t statusNumber(pid_t pid, std::string_view key) {
  const std::string text = hardware::readText("/proc/" + std::to_string(pid) + "/status").value_or("");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = hardware::nextLine(rest);
    if (line.starts_with(key)) return hardware::firstNumber(line.substr(key.size())).value_or(0);
  }
  return 0;
}

/// Reasons that can be seen before anything is touched.
Status checkTarget(pid_t pid, const Injection& injection) {
  TS_TRY(canBorrowThreads());
  if (statusNumber(pid, "TracerPid:\t") != 0)
    return Status::busy("a debugger has " + processName(pid) + ": end it first");
  const std::vector<Task> all = tasks(pid);
  if (!all.empty() && all[0].state == 'Z') return Status::notFound(processName(pid) + " has ended");
  if (!all.empty() && (all[0].state == 'T' || all[0].state == 't'))
    return Status::busy(processName(pid) + " is stopped: continue it first (kill -CONT " + std::to_string(pid) + ")");
  const int64_t seccomp = statusNumber(pid, "Seccomp:\t");
  if (seccomp == 1)
    return Status::forbidden(processName(pid) +
                             " may only read and write (strict seccomp): loading a library would end it");
  if (seccomp == 2 && !injection.despite_seccomp)
    return Status::forbidden(processName(pid) +
                             " has a seccomp filter, which may end it for calls that loading a library makes; "
                             "containers usually allow them: --despite-seccomp tries it");
  return {};
}

/// Addresses of the functions that bring a library in.
Status findLoader(pid_t pid, const std::vector<Module>& all, LibraryCall& call) {
  const auto with = [&](auto matches) {
    return std::find_if(all.begin(), all.end(), [&](const Module& m) { return matches(m.path); });
  };
  if (with([](const std::string& p) { return p.find("/ld-musl") != std::string::npos; }) != all.end())
    return Status::unsupported(processName(pid) + " uses musl's C library; the probe needs glibc");
  if (with(isLoader) == all.end())
    return Status::unsupported(processName(pid) + " is linked statically: it cannot load a library");
  const std::vector<std::string_view> names = {"dlopen", "dlsym", "dlerror", "getpid"};
  uint64_t* places[] = {&call.dlopen, &call.dlsym, &call.dlerror, &call.getpid};
  for (const Module& m : all) {
    const std::string file = fs::path(m.path).filename();
    if (!isLibc(m.path) && !file.starts_with("libdl.so") && !file.starts_with("libdl-2.")) continue;
    const Result<ElfFile> elf = ElfFile::open(openPath(pid, m));
    if (!elf) return Status::unsupported(processName(pid) + ": " + elf.status().message());
    const std::optional<uint64_t> bias = elf->bias(m.begin, m.offset);
    const auto symbols = elf->symbols(names);
    for (size_t i = 0; bias && i < names.size(); ++i)
      if (*places[i] == 0 && symbols[i]) *places[i] = *bias + *symbols[i];
  }
  for (const uint64_t* place : places)
    if (*place == 0)
      return Status::unsupported(processName(pid) + " has no dlopen: its C library is too old, or another one");
  return {};
}

/// What a look at all threads found.
struct Attempt {
  bool done = false;
  Result<LibraryAnswer> answer = Status::busy("");
  pid_t thread = 0;
  int64_t borrowed_ns = 0;
  std::string why;  // not yet
};

/// In a thread of its own: whoever it traces is let go when it ends.
void tryThread(pid_t pid, const Task& task, Unwinder& unwinder, const LibraryCall& call, bool only_waiting,
               int64_t patience_ns, Attempt& attempt) {
  Result<std::unique_ptr<BorrowedThread>> thread = BorrowedThread::stop(pid, task.tid, kStopNs);
  const int64_t begin = rawClock();
  if (!thread) {
    if (thread.status().code() == Code::kForbidden) {
      attempt.done = true;
      attempt.answer = thread.status();
    }
    attempt.why = thread.status().message();
    return;
  }
  bool complete = false;
  const std::vector<NativeFrame> frames = unwinder.unwind((*thread)->snapshot(), complete);
  const Place place = placeOf(frames, complete, (*thread)->snapshot());
  if (place != Place::waits && (only_waiting || place != Place::program)) {
    attempt.why = "thread " + std::to_string(task.tid) + " is in " +
                  (frames.empty() || frames[0].function.empty() ? "code without a name" : frames[0].function);
    return;
  }
  attempt.done = true;
  attempt.thread = task.tid;
  attempt.answer = (*thread)->call(call, patience_ns);
  attempt.borrowed_ns = rawClock() - begin;
}

/// A thread that loads a library keeps others from it, perhaps for ever. Nothing: there is none.
std::optional<pid_t> whoLoads(pid_t pid, const std::vector<Task>& all, Unwinder& unwinder) {
  Result<std::vector<Snapshot>> taken = snapshots(pid, all, [](size_t) {});
  if (!taken) return {};
  for (size_t i = 0; i < taken->size(); ++i) {
    const Snapshot& s = (*taken)[i];
    bool complete = false;
    if (s.taken && placeOf(unwinder.unwind(s, complete), complete, s) == Place::loader) return all[i].tid;
  }
  return {};
}

/// Looks at one thread after the other until one stands at a good place.
Attempt borrow(pid_t pid, const LibraryCall& call, Unwinder& unwinder, int64_t patience_ns) {
  Attempt attempt;
  const int64_t begin = rawClock(), deadline = begin + patience_ns;
  while (true) {
    std::vector<Task> all = tasks(pid);
    if (all.empty()) {
      attempt.answer = Status::notFound(processName(pid) + " has ended");
      return attempt;
    }
    // Those that sleep are likely to be at a good place.
    std::stable_partition(all.begin(), all.end(), [](const Task& t) { return t.state == 'S'; });
    if (const std::optional<pid_t> loads = whoLoads(pid, all, unwinder)) {
      attempt.why = "thread " + std::to_string(*loads) + " loads a library";
    } else {
      const bool only_waiting = rawClock() - begin < kOnlyWaitingNs;
      for (const Task& task : all) {
        if (task.state == 'Z' || task.state == 'D') continue;
        const int64_t left = std::max<int64_t>(deadline - rawClock(), 1'000'000'000);
        std::thread([&] { tryThread(pid, task, unwinder, call, only_waiting, left, attempt); }).join();
        if (attempt.done) return attempt;
        if (rawClock() > deadline) break;
      }
    }
    if (rawClock() > deadline) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  attempt.answer = Status::busy("no thread of " + processName(pid) +
                                " came to a place where a library can be loaded safely within " +
                                std::to_string(patience_ns / 1'000'000'000) + " s" +
                                (attempt.why.empty() ? "" : " (" + attempt.why + ")") + ": try again");
  return attempt;
}

bool sameNamespace(pid_t pid, const char* name) {
  const std::string own = std::string("/proc/self/ns/") + name, other = "/proc/" + std::to_string(pid) + "/ns/" + name;
  std::error_code a, b;
  return fs::read_symlink(own, a) == fs::read_symlink(other, b) && !a && !b;
}

bool sameRoot(pid_t pid) {
  struct stat own, other;
  return ::stat("/", &own) == 0 && ::stat(("/proc/" + std::to_string(pid) + "/root/").c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

}  // namespace

Result<VisibleFile> visibleIn(pid_t pid, const std::string& file) {
  if (sameNamespace(pid, "mnt") && sameRoot(pid)) return VisibleFile{file, ""};
  const std::string root = "/proc/" + std::to_string(pid) + "/root";
  std::string path = root + "/tmp/tracesmith-XXXXXX";
  // A link would lead to this machine's files.
  struct stat folder;
  const bool good = ::lstat((root + "/tmp").c_str(), &folder) == 0 && S_ISDIR(folder.st_mode);
  const int fd = good ? ::mkostemp(path.data(), O_CLOEXEC) : -1;
  if (fd < 0)
    return Status::io("cannot copy the library into the container of " + processName(pid) + ": " +
                      std::strerror(errno));
  VisibleFile visible{path.substr(root.size()), path};
  const int from = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> bytes(1 << 20);
  ssize_t n = from < 0 ? -1 : 1;
  bool written = from >= 0;
  while (written && (n = ::read(from, bytes.data(), bytes.size())) > 0)
    written = ::write(fd, bytes.data(), static_cast<size_t>(n)) == n;
  written &= n == 0 && ::fchmod(fd, 0755) == 0;
  if (from >= 0) ::close(from);
  ::close(fd);
  if (written) return visible;
  ::unlink(path.c_str());
  return Status::io("cannot copy the library into the container of " + processName(pid));
}

Result<Injected> injectHere(pid_t pid, const Injection& injection) {
  Result<std::vector<Module>> mapped = modules(pid);
  if (!mapped) return mapped.status();
  TS_TRY(checkTarget(pid, injection));
  LibraryCall call;
  call.function = injection.function;
  call.argument = injection.argument;
  TS_TRY(findLoader(pid, *mapped, call));
  Result<std::unique_ptr<Unwinder>> unwinder = Unwinder::create(pid, *mapped);
  if (!unwinder) return unwinder.status();
  VisibleFile visible;
  const std::string name = fs::path(injection.library).filename();
  for (const Module& m : *mapped)
    if (fs::path(m.path).filename() == name) visible.path = m.path;  // it is there already, perhaps by another path
  if (visible.path.empty()) {
    Result<VisibleFile> copy = visibleIn(pid, injection.library);
    if (!copy) return copy.status();
    visible = std::move(*copy);
  }
  call.library = visible.path;
  const int64_t begin = rawClock();
  const Attempt found = borrow(pid, call, **unwinder, injection.patience_ns);
  const int64_t took = rawClock() - begin;
  if (!visible.remove.empty()) ::unlink(visible.remove.c_str());
  if (!found.answer) return found.answer.status();
  if (!found.answer->loader_error.empty())
    return Status::io(processName(pid) + " cannot load the library: " + found.answer->loader_error);
  return Injected{static_cast<int32_t>(found.answer->value), found.thread, took - found.borrowed_ns, found.borrowed_ns};
}

}  // namespace tracesmith::process
