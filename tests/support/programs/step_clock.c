// Preloaded: the time of day is off by as many seconds as $STEP_CLOCK_FILE says, from one call to the next.
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

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec* ts) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, ts);
  if (result == 0 && id == CLOCK_REALTIME) ts->tv_sec += step();
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
