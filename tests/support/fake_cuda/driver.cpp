// CUDA's driver: copies are memcpy, streams are in order because everything is done at once, events are the clock.
#include <time.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cstdint>
#include <utility>

// As cuda.h has them; our own declarations are not used, so that a mistake in them shows.
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;
using Pointer = unsigned long long;      // CUdeviceptr
constexpr int kPeerAccessAlready = 704;  // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED

#define EXPORT extern "C" __attribute__((visibility("default")))

static double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
// Copies are only pretended beyond a megabyte: tests need the calls, not the speed.
static void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes < 1 << 20 ? bytes : 1 << 20); }
static void* at(Pointer p) { return reinterpret_cast<void*>(static_cast<uintptr_t>(p)); }

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDeviceGetCount(int* out) { return *out = 2, 0; }
EXPORT int cuDeviceGet(int* out, int i) { return *out = i, 0; }
EXPORT int cuDeviceGetPCIBusId(char* out, int size, int d) {
  std::snprintf(out, static_cast<size_t>(size), "0000:%02X:00.0", 0x18 + 0x11 * d);
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(Context* out, int d) { return *out = reinterpret_cast<Context>(d + 1l), 0; }
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
static thread_local long current = 0;  // GPU + 1, as of its context
EXPORT int cuCtxSetCurrent(Context c) { return current = reinterpret_cast<long>(c), 0; }
EXPORT int cuMemAlloc_v2(Pointer* out, size_t bytes) {
  *out = reinterpret_cast<uintptr_t>(std::malloc(bytes));
  return *out ? 0 : 2;
}
EXPORT int cuMemFree_v2(Pointer p) { return std::free(at(p)), 0; }
EXPORT int cuMemAllocHost_v2(void** out, size_t bytes) { return *out = std::malloc(bytes), *out ? 0 : 2; }
EXPORT int cuMemFreeHost(void* p) { return std::free(p), 0; }
EXPORT int cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t n, Stream) { return copy(at(to), from, n), 0; }
EXPORT int cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t n, Stream) { return copy(to, at(from), n), 0; }
EXPORT int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t n, Stream) { return copy(at(to), at(from), n), 0; }
EXPORT int cuMemcpyPeerAsync(Pointer to, Context a, Pointer from, Context b, size_t n, Stream) {
  if (a == b) return 1;
  return copy(at(to), at(from), n), 0;
}
EXPORT int cuDeviceCanAccessPeer(int* out, int, int) { return *out = 1, 0; }
EXPORT int cuCtxEnablePeerAccess(Context, unsigned) {
  static bool again = false;
  return std::exchange(again, true) ? kPeerAccessAlready : 0;
}
EXPORT int cuStreamCreate(Stream* out, unsigned) { return *out = new int, 0; }
EXPORT int cuStreamDestroy_v2(Stream s) { return delete static_cast<int*>(s), 0; }
EXPORT int cuStreamSynchronize(Stream) { return 0; }
EXPORT int cuEventCreate(Event* out, unsigned) { return *out = new double(0), 0; }
EXPORT int cuEventDestroy_v2(Event e) { return delete static_cast<double*>(e), 0; }
EXPORT int cuEventRecord(Event e, Stream) { return *static_cast<double*>(e) = now(), 0; }
EXPORT int cuEventSynchronize(Event) { return 0; }
EXPORT int cuEventElapsedTime(float* out, Event a, Event b) {
  *out = static_cast<float>((*static_cast<double*>(b) - *static_cast<double*>(a)) * 1e3);
  return 0;
}
// The one kernel we launch reads the GPU's clock: each GPU's is ahead of the host's raw clock by a second more.
EXPORT int cuModuleLoadData(Module* out, const void* ptx) {
  if (!std::strstr(static_cast<const char*>(ptx), "%globaltimer")) return 218;
  return *out = new int, 0;
}
EXPORT int cuModuleUnload(Module m) { return delete static_cast<int*>(m), 0; }
EXPORT int cuModuleGetFunction(Function* out, Module m, const char* name) {
  return *out = m, std::strcmp(name, "tracesmith_read_clock") == 0 ? 0 : 500;
}
EXPORT int cuLaunchKernel(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                          void** arguments, void**) {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  const long long raw = static_cast<long long>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  *static_cast<volatile long long*>(at(*static_cast<Pointer*>(arguments[0]))) = raw + current * 1'000'000'000ll;
  return 0;
}
