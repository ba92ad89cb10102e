// Makes what a process sends slow, to be preloaded: NCCL's sockets get EAGAIN once the rate is used up, as from a slow
// network. cc -shared -fPIC -O2 -o slow_link.so slow_link.c -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

static volatile double rate = -1;  // bytes a second; below 0: no limit
static double tokens, last;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

void slow_link(double mb_per_s) {
  pthread_mutex_lock(&lock);
  rate = mb_per_s * 1e6;
  tokens = 0;
  last = now();
  pthread_mutex_unlock(&lock);
}

ssize_t send(int fd, const void* data, size_t size, int flags) {
  static ssize_t (*real)(int, const void*, size_t, int);
  if (!real) real = (ssize_t(*)(int, const void*, size_t, int))dlsym(RTLD_NEXT, "send");
  // Only bulk data that is sent without blocking: the store and NCCL's set-up go on.
  if (rate < 0 || !(flags & MSG_DONTWAIT) || size < 4096) return real(fd, data, size, flags);
  pthread_mutex_lock(&lock);
  const double t = now();
  tokens += rate * (t - last);
  last = t;
  if (tokens > 65536) tokens = 65536;
  ssize_t sent = -1;
  if (tokens >= 4096) {
    sent = real(fd, data, size < (size_t)tokens ? size : (size_t)tokens, flags);
    if (sent > 0) tokens -= (double)sent;
  } else {
    errno = EAGAIN;
  }
  pthread_mutex_unlock(&lock);
  return sent;
}
