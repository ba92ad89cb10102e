// Preloaded: the time of day is off by as many seconds as $STEP_CLOCK_FILE says, from one call to the next; the raw
// clock is off by $SKEW_RAW_NS, and drifts by $SKEW_RAW_PPM.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t step(void) {
  static const char* path;
  if (!path && !(path = getenv("STEP_CLOCK_FILE"))) return 0;
  char text[32] = {0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 ? (time_t)strtol(text, NULL, 10) : 0;
}

static void skew(struct timespec* ts) {
  static int known;
  static long long offset_ns, ppm;
  if (!known) {
    const char *ns = getenv("SKEW_RAW_NS"), *rate = getenv("SKEW_RAW_PPM");
    offset_ns = ns ? strtoll(ns, NULL, 10) : 0;
    ppm = rate ? strtoll(rate, NULL, 10) : 0;
    known = 1;
  }
  const long long true_ns = ts->tv_sec * 1000000000ll + ts->tv_nsec;
  const long long ns = true_ns + offset_ns + true_ns / 1000000 * ppm + true_ns % 1000000 * ppm / 1000000;
  ts->tv_sec = ns / 1000000000;
  ts->tv_nsec = ns % 1000000000;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec* ts) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, ts);
  if (result == 0 && id == CLOCK_REALTIME) ts->tv_sec += step();
  if (result == 0 && id == CLOCK_MONOTONIC_RAW) skew(ts);
  return result;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval* restrict tv, void* restrict zone) {
  (void)zone;
  struct timespec ts;
  const int result = clock_gettime(CLOCK_REALTIME, &ts);
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return result;
}

__attribute__((visibility("default"))) time_t time(time_t* out) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (out) *out = ts.tv_sec;
  return ts.tv_sec;
}
