// The stacks of this process, for readers that may not read its memory: they ask through the ring, and a library that
// is loaded only then writes them into a file beside it.
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
namespace {

constexpr size_t kStackBytes = 1 << 20;  // touched only when stacks are read

struct Place {
  char file[560], library[512];
};

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, nullptr, nullptr, 0);
}

/// The library lies beside this one.
bool libraryPath(char* path, size_t size) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&libraryPath), &info) || !info.dli_fname) return false;
  const char* slash = strrchr(info.dli_fname, '/');
  if (!slash) return false;
  const int n =
      snprintf(path, size, "%.*s/libtracesmith_stacks.so", static_cast<int>(slash - info.dli_fname), info.dli_fname);
  return n > 0 && static_cast<size_t>(n) < size && access(path, R_OK) == 0;
}

void* serve(void* argument) {
  pthread_setname_np(pthread_self(), "tracesmith");
  Place& place = *static_cast<Place*>(argument);
  ring::RingHeader& h = ringOrNull()->header();
  uint32_t done = h.stacks_wanted.load();
  h.stacks_served = 1;
  using Write = int (*)(const char*);
  Write write = nullptr;
  for (;;) {
    const uint32_t wanted = h.stacks_wanted.load();
    if (wanted == done) {
      // In the memory of the ring, so that whoever asks can wake us; nothing is done until then.
      if (futex(h.stacks_wanted, FUTEX_WAIT, done) != 0 && errno != EAGAIN && errno != EINTR) break;
      continue;
    }
    if (!write) {
      void* library = dlopen(place.library, RTLD_NOW | RTLD_LOCAL);
      write = library ? reinterpret_cast<Write>(dlsym(library, "tracesmith_write_own_stacks")) : nullptr;
    }
    h.stacks_error = write ? static_cast<uint32_t>(write(place.file)) : ELIBACC;
    h.stacks_given = done = wanted;
    futex(h.stacks_given, FUTEX_WAKE, INT32_MAX);
  }
  h.stacks_served = 0;
  return nullptr;
}

}  // namespace

void serveStacks(const char* ring) {
  static Place place;  // one ring at a time: a child after fork() has a copy of its own
  if (!libraryPath(place.library, sizeof place.library)) return;
  snprintf(place.file, sizeof place.file, "%s.stacks", ring);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals are for the job's threads
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, kStackBytes);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_create(&thread, &small, serve, &place);  // without it, nobody is told: stacks_served stays 0
  pthread_attr_destroy(&small);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

}  // namespace tracesmith::probe
