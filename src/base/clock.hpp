// The clocks of this machine, in ns. Uses libc alone: the probe includes it.
#pragma once

#include <time.h>

#include <cstdint>

namespace tracesmith {

inline int64_t readClock(clockid_t id) {
  timespec t{};
  ::clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

/// The clock of all recorded times: it counts evenly, nobody sets it, and it starts anew with the machine.
inline int64_t rawClock() { return readClock(CLOCK_MONOTONIC_RAW); }
/// The time of day, as the system has it. It may be set at any moment.
inline int64_t unixClock() { return readClock(CLOCK_REALTIME); }

/// unixClock() − rawClock(), as if both were read at the same moment.
inline int64_t unixMinusRaw() {
  constexpr int64_t kGood = 500;
  int64_t best = INT64_MAX, difference = 0;
  for (int i = 0; i < 8 && best > kGood; ++i) {  // a thread interrupted between the readings tries again
    const int64_t before = rawClock(), unix_ns = unixClock(), took = rawClock() - before;
    if (took >= best) continue;
    best = took;
    difference = unix_ns - (before + took / 2);
  }
  return difference;
}

}  // namespace tracesmith
