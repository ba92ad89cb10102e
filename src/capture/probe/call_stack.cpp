#include "capture/probe/call_stack.hpp"

#include <errno.h>
#include <execinfo.h>

namespace tracesmith::probe {
namespace {

constexpr int kMostFrames = 64;
constexpr int kMostDigits = 2 * sizeof(uintptr_t);

char* writeHex(char* out, uintptr_t value) {
  int digits = 1;
  while (digits < kMostDigits && value >> (4 * digits)) ++digits;
  while (digits > 0) *out++ = "0123456789abcdef"[value >> (4 * --digits) & 15];
  return out;
}

}  // namespace

uint32_t callStack(RingWriter& r) {
  if (!(r.header().wants.load(std::memory_order_relaxed) & ring::kWantCallStacks) || !recording(r)) return 0;
  const int saved = errno;
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  errno = saved;
  char text[kMostFrames * (kMostDigits + 1)];
  char* end = text;
  for (int i = 1; i < count; ++i) {  // the first one is this function
    if (i > 1) *end++ = ' ';
    end = writeHex(end, reinterpret_cast<uintptr_t>(frames[i]));
  }
  return r.intern(text, static_cast<size_t>(end - text));
}

}  // namespace tracesmith::probe
