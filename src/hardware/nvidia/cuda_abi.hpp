// The few calls of CUDA's driver and of cuBLASLt that measure a GPU, declared by ourselves and found by dlopen.
// tests/hardware/cuda_headers.cpp checks them against NVIDIA's headers where those are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::cuda {

using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;
using Pointer = unsigned long long;
constexpr int kPeerAccessAlready = 704;

// FUNCTION(member, "symbol", arguments): all return 0 when they succeeded.
#define TS_CUDA_FUNCTIONS(FUNCTION)                                                               \
  FUNCTION(init, "cuInit", (unsigned))                                                            \
  FUNCTION(count, "cuDeviceGetCount", (int*))                                                     \
  FUNCTION(device, "cuDeviceGet", (int*, int))                                                    \
  FUNCTION(pciBusId, "cuDeviceGetPCIBusId", (char*, int, int))                                    \
  FUNCTION(retainContext, "cuDevicePrimaryCtxRetain", (Context*, int))                            \
  FUNCTION(releaseContext, "cuDevicePrimaryCtxRelease_v2", (int))                                 \
  FUNCTION(setContext, "cuCtxSetCurrent", (Context))                                              \
  FUNCTION(allocate, "cuMemAlloc_v2", (Pointer*, size_t))                                         \
  FUNCTION(free, "cuMemFree_v2", (Pointer))                                                       \
  FUNCTION(allocateHost, "cuMemAllocHost_v2", (void**, size_t))                                   \
  FUNCTION(freeHost, "cuMemFreeHost", (void*))                                                    \
  FUNCTION(copyToDevice, "cuMemcpyHtoDAsync_v2", (Pointer, const void*, size_t, Stream))          \
  FUNCTION(copyToHost, "cuMemcpyDtoHAsync_v2", (void*, Pointer, size_t, Stream))                  \
  FUNCTION(copyOnDevice, "cuMemcpyDtoDAsync_v2", (Pointer, Pointer, size_t, Stream))              \
  FUNCTION(copyToPeer, "cuMemcpyPeerAsync", (Pointer, Context, Pointer, Context, size_t, Stream)) \
  FUNCTION(canAccessPeer, "cuDeviceCanAccessPeer", (int*, int, int))                              \
  FUNCTION(enablePeer, "cuCtxEnablePeerAccess", (Context, unsigned))                              \
  FUNCTION(createStream, "cuStreamCreate", (Stream*, unsigned))                                   \
  FUNCTION(destroyStream, "cuStreamDestroy_v2", (Stream))                                         \
  FUNCTION(synchronize, "cuStreamSynchronize", (Stream))                                          \
  FUNCTION(createEvent, "cuEventCreate", (Event*, unsigned))                                      \
  FUNCTION(destroyEvent, "cuEventDestroy_v2", (Event))                                            \
  FUNCTION(record, "cuEventRecord", (Event, Stream))                                              \
  FUNCTION(waitFor, "cuEventSynchronize", (Event))                                                \
  FUNCTION(elapsedMs, "cuEventElapsedTime", (float*, Event, Event))                               \
  FUNCTION(loadModule, "cuModuleLoadData", (Module*, const void*))                                \
  FUNCTION(unloadModule, "cuModuleUnload", (Module))                                              \
  FUNCTION(function, "cuModuleGetFunction", (Function*, Module, const char*))                     \
  FUNCTION(launch, "cuLaunchKernel",                                                              \
           (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**))

struct Functions {
#define FUNCTION(member, symbol, arguments) int(*member) arguments = nullptr;
  TS_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

}  // namespace tracesmith::cuda

namespace tracesmith::cublaslt {

using Handle = void*;
enum Type : int { kFp32 = 0, kFp64 = 1, kFp16 = 2, kBf16 = 14, kFp8 = 28 };
enum Compute : int { kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77 };
constexpr int kDescTransposeA = 3, kPreferWorkspace = 1, kTransposed = 1;

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

#define TS_CUBLASLT_FUNCTIONS(FUNCTION)                                                                          \
  FUNCTION(create, "cublasLtCreate", (Handle*))                                                                  \
  FUNCTION(destroy, "cublasLtDestroy", (Handle))                                                                 \
  FUNCTION(createDesc, "cublasLtMatmulDescCreate", (void**, int, int))                                           \
  FUNCTION(setDesc, "cublasLtMatmulDescSetAttribute", (void*, int, const void*, size_t))                         \
  FUNCTION(destroyDesc, "cublasLtMatmulDescDestroy", (void*))                                                    \
  FUNCTION(createLayout, "cublasLtMatrixLayoutCreate", (void**, int, uint64_t, uint64_t, int64_t))               \
  FUNCTION(destroyLayout, "cublasLtMatrixLayoutDestroy", (void*))                                                \
  FUNCTION(createPreference, "cublasLtMatmulPreferenceCreate", (void**))                                         \
  FUNCTION(setPreference, "cublasLtMatmulPreferenceSetAttribute", (void*, int, const void*, size_t))             \
  FUNCTION(destroyPreference, "cublasLtMatmulPreferenceDestroy", (void*))                                        \
  FUNCTION(heuristic, "cublasLtMatmulAlgoGetHeuristic",                                                          \
           (Handle, void*, void*, void*, void*, void*, void*, int, Heuristic*, int*))                            \
  FUNCTION(multiply, "cublasLtMatmul",                                                                           \
           (Handle, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, \
            void*, void*, const void*, void*, size_t, void*))

struct Functions {
#define FUNCTION(member, symbol, arguments) int(*member) arguments = nullptr;
  TS_CUBLASLT_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

}  // namespace tracesmith::cublaslt
