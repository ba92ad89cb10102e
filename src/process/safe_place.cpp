#include "process/safe_place.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <string_view>

#include "process/modules.hpp"

namespace tracesmith::process {
namespace {

std::string_view nameOf(const std::string& path) {
  const std::string_view view = path;
  return view.substr(view.rfind('/') + 1);
}

bool beginsWithAny(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view p) { return text.starts_with(p); });
}

/// Functions that hold a lock of the allocator or the loader, or run while the process forks or ends.
bool holdsLocks(const NativeFrame& frame) {
  if (beginsWithAny(nameOf(frame.file), {"libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc", "libhoard"}))
    return true;
  constexpr std::string_view kNames[] = {
      "malloc",        "free",           "calloc",          "realloc",    "reallocarray", "memalign",
      "aligned_alloc", "posix_memalign", "valloc",          "pvalloc",    "cfree",        "malloc_trim",
      "malloc_info",   "malloc_stats",   "mallinfo",        "mallinfo2",  "mallopt",      "malloc_usable_size",
      "dlopen",        "dlclose",        "dlsym",           "dlvsym",     "dlmopen",      "dladdr",
      "dladdr1",       "dlinfo",         "dl_iterate_phdr", "fork",       "vfork",        "_Fork",
      "__libc_fork",   "exit",           "_exit",           "quick_exit", "abort",        "pthread_create",
      "pthread_exit",  "pthread_atfork", "setenv",          "unsetenv",   "putenv",       "clearenv",
      "execve",        "posix_spawn",    "posix_spawnp",    "getaddrinfo"};
  std::string_view name = frame.function;
  name = name.substr(0, name.find('('));
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         beginsWithAny(name, {"operator new",
                              "operator delete",
                              "__libc_malloc",
                              "__libc_free",
                              "__libc_calloc",
                              "__libc_realloc",
                              "__libc_memalign",
                              "_int_malloc",
                              "_int_free",
                              "_int_realloc",
                              "_int_memalign",
                              "sysmalloc",
                              "systrim",
                              "arena_get",
                              "tcache_",
                              "malloc_consolidate",
                              "__libc_dlopen",
                              "_dl_",
                              "je_",
                              "tc_",
                              "mi_",
                              "tcmalloc",
                              "__run_exit_handlers",
                              "__nptl_",
                              "__cxa_finalize"});
}

#if defined(__x86_64__)
/// Calls of the kernel in which programs wait, and neither the allocator nor the loader does. restart_syscall goes on
/// with one that has a time-out.
constexpr long kWaits[] = {SYS_read,
                           SYS_readv,
                           SYS_poll,
                           SYS_ppoll,
                           SYS_select,
                           SYS_pselect6,
                           SYS_epoll_wait,
                           SYS_epoll_pwait,
                           SYS_epoll_pwait2,
                           SYS_nanosleep,
                           SYS_clock_nanosleep,
                           SYS_wait4,
                           SYS_waitid,
                           SYS_recvfrom,
                           SYS_recvmsg,
                           SYS_accept,
                           SYS_accept4,
                           SYS_pause,
                           SYS_rt_sigtimedwait,
                           SYS_futex,
                           SYS_write,
                           SYS_sendto,
                           SYS_restart_syscall,
                           SYS_sendmsg,
                           SYS_ioctl};
constexpr size_t kSecondArgument = 4;  // of Snapshot::registers: rsi
#else
constexpr long kWaits[] = {SYS_futex};
constexpr size_t kSecondArgument = 1;
#endif

/// On something that other threads give: a condition, a semaphore, their end. Not on a lock of the C library's own.
bool waitsForThreads(const std::vector<NativeFrame>& frames, const Snapshot& snapshot) {
  // The C library waits for its locks by FUTEX_WAIT, and for the others, from 2.34 on, by FUTEX_WAIT_BITSET.
  constexpr uint64_t kCommand = 0x7f, kWaitBitset = 9;
  if ((snapshot.registers[kSecondArgument] & kCommand) == kWaitBitset) return true;
  size_t outer = 0;
  while (outer < frames.size() && isLibc(frames[outer].file)) ++outer;
  if (outer == 0) return true;  // the program calls the kernel itself
  constexpr std::string_view kNames[] = {"pthread_cond_wait",
                                         "pthread_cond_timedwait",
                                         "pthread_cond_clockwait",
                                         "sem_wait",
                                         "sem_timedwait",
                                         "sem_clockwait",
                                         "pthread_join",
                                         "pthread_timedjoin_np",
                                         "pthread_clockjoin_np",
                                         "pthread_barrier_wait",
                                         "syscall"};
  std::string_view name = frames[outer - 1].function;  // through which the C library was called
  while (name.starts_with('_')) name.remove_prefix(1);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

bool isLibc(const std::string& path) {
  const std::string_view name = nameOf(path);
  return name.starts_with("libc.so") || name.starts_with("libc-2.") || name.starts_with("libpthread.so") ||
         name.starts_with("libpthread-2.");
}

bool isLoader(const std::string& path) {
  const std::string_view name = nameOf(path);
  return name.starts_with("ld-linux") || name.starts_with("ld-2.") || name.starts_with("ld64.so");
}

Place placeOf(const std::vector<NativeFrame>& frames, bool complete, const Snapshot& snapshot) {
  if (frames.empty()) return Place::unsafe;
  // The outermost functions start a program or a thread: the loader's are there before it, not around it.
  size_t last = frames.size();
  if (last >= 2 && isLibc(frames[last - 2].file)) --last;  // _start, which has no name where the program is stripped
  while (last > 0 && isLibc(frames[last - 1].file)) --last;
  bool in_libc = false, in_loader = false, locks = false;
  for (size_t i = 0; i < frames.size(); ++i) {
    in_loader |= isLoader(frames[i].file);
    locks |= i < last && holdsLocks(frames[i]);
    in_libc |= i < last && (isLibc(frames[i].file) || frames[i].file == kVdso);
  }
  if (in_loader) return Place::loader;
  if (!complete || locks || last == 0) return Place::unsafe;
  const int64_t system_call = snapshot.system_call;
  if (system_call < 0) return in_libc ? Place::unsafe : Place::program;
  if (std::find(std::begin(kWaits), std::end(kWaits), system_call) == std::end(kWaits)) return Place::unsafe;
  if (system_call == SYS_futex && !waitsForThreads(frames, snapshot)) return Place::unsafe;
  return Place::waits;
}

}  // namespace tracesmith::process
