// cuBLASLt: knows all types but fp8, multiplies nothing, takes a tenth of a millisecond.
#include <time.h>

#include <cstddef>
#include <cstdint>

// As cublasLt.h has them; our own declarations are not used, so that a mistake in them shows.
using Handle = void*;
constexpr int kFp8 = 28;  // CUDA_R_8F_E4M3
struct Heuristic {        // cublasLtMatmulHeuristicResult_t
  struct {
    uint64_t data[8];
  } algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

#define EXPORT extern "C" __attribute__((visibility("default")))

struct Layout {
  int type;
  uint64_t rows, cols;
};

EXPORT int cublasLtCreate(Handle* out) { return *out = new int, 0; }
EXPORT int cublasLtDestroy(Handle h) { return delete static_cast<int*>(h), 0; }
EXPORT int cublasLtMatmulDescCreate(void** out, int, int) { return *out = new int, 0; }
EXPORT int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
EXPORT int cublasLtMatmulDescDestroy(void* p) { return delete static_cast<int*>(p), 0; }
EXPORT int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (ld < static_cast<int64_t>(rows)) return 7;
  return *out = new Layout{type, rows, cols}, 0;
}
EXPORT int cublasLtMatrixLayoutDestroy(void* p) { return delete static_cast<Layout*>(p), 0; }
EXPORT int cublasLtMatmulPreferenceCreate(void** out) { return *out = new int, 0; }
EXPORT int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
EXPORT int cublasLtMatmulPreferenceDestroy(void* p) { return delete static_cast<int*>(p), 0; }
EXPORT int cublasLtMatmulAlgoGetHeuristic(Handle, void*, void* a, void*, void*, void*, void*, int, Heuristic* out,
                                          int* found) {
  *found = static_cast<Layout*>(a)->type == kFp8 ? 0 : 1;
  out->workspace = 1;
  return *found ? 0 : 15;
}
EXPORT int cublasLtMatmul(Handle, void*, const void* alpha, const void* a, void*, const void* b, void*, const void*,
                          const void*, void*, void* d, void*, const void* algorithm, void*, size_t, void*) {
  const timespec pause{0, 100'000};
  ::nanosleep(&pause, nullptr);
  return alpha && a && b && d && algorithm ? 0 : 7;
}
