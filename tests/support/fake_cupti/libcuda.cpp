// A stand-in for libcuda.so.1 with two GPUs: as much of it as asks about devices, and events on streams that have work
// to do for a while. What would spoil a capture ends the program.
//   FAKE_EVENT_US   how long it takes to record an event
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace {

struct Stream {
  uint64_t busy_until = 0;
  bool capturing = false;
};
struct Event {
  uint64_t at = 0;  // 0: never recorded
};
std::mutex g_mutex;                              // guards the streams, and when events come
auto& g_streams = *new std::map<void*, Stream>;  // never freed: the probe asks until the process ends
thread_local int t_capture_mode = 0;             // global
thread_local uint64_t t_last[2] = {0, 0};        // when the last events of this thread come

uint64_t now() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(t.tv_nsec);
}

[[noreturn]] void spoilt(const char* what) {
  std::fprintf(stderr, "fake libcuda: %s\n", what);
  std::_Exit(98);
}

/// As CUDA has it: another thread's capture forbids calls to all whose mode is not relaxed.
void checkCapture(const char* call) {
  for (const auto& [handle, stream] : g_streams)
    if (stream.capturing && t_capture_mode != 2) spoilt(call);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < 2 ? 0 : 101;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake GPU %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute;
  return attribute == 37 ? 1 : 0;  // the bus width is not to be had
}

int cuCtxGetCurrent(void** context) {
  *context = reinterpret_cast<void*>(1);
  return 0;
}
int cuCtxPushCurrent_v2(void* context) { return context == reinterpret_cast<void*>(1) ? 0 : 201; }
int cuCtxPopCurrent_v2(void** context) { return cuCtxGetCurrent(context); }
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, t_capture_mode);
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = new int;
  return 0;
}
int cuStreamIsCapturing(void* stream, int* capturing) {
  std::lock_guard lock(g_mutex);
  *capturing = g_streams[stream].capturing;
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  std::lock_guard lock(g_mutex);
  checkCapture("an event was made");
  *event = new Event;
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  static const char* us = std::getenv("FAKE_EVENT_US");
  if (const timespec pause{0, us ? std::atol(us) * 1000 : 0}; us) ::nanosleep(&pause, nullptr);
  std::lock_guard lock(g_mutex);
  if (g_streams[stream].capturing) spoilt("an event was recorded into a capture");
  t_last[0] = t_last[1];
  t_last[1] = static_cast<Event*>(event)->at = std::max(now(), g_streams[stream].busy_until);
  return 0;
}
int cuEventQuery(void* event) {
  std::lock_guard lock(g_mutex);
  checkCapture("an event was asked for");
  return now() >= static_cast<Event*>(event)->at ? 0 : 600;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  std::lock_guard lock(g_mutex);
  const uint64_t a = static_cast<Event*>(from)->at, b = static_cast<Event*>(to)->at;
  if (a > now() || b > now()) return 600;
  *ms = static_cast<float>((static_cast<double>(b) - static_cast<double>(a)) / 1e6);
  return 0;
}

// For the program: what its GPU does.
void fakeStreamWork(void* stream, uint64_t ns) {
  std::lock_guard lock(g_mutex);
  Stream& s = g_streams[stream];
  s.busy_until = std::max(now(), s.busy_until) + ns;
}
void fakeStreamCapture(void* stream, int on) {
  std::lock_guard lock(g_mutex);
  g_streams[stream].capturing = on != 0;
}
/// When the last two events of this thread come.
void fakeLastEvents(uint64_t* first, uint64_t* second) {
  *first = t_last[0];
  *second = t_last[1];
}
}
