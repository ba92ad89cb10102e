// Our declarations of CUDA's driver and cuBLASLt, against NVIDIA's headers. Compiled only where those are.
#include <cublasLt.h>
#include <cuda.h>

#include "hardware/nvidia/cuda_abi.hpp"

namespace tracesmith {
namespace {

/// Number of arguments and their sizes, as one number.
template <typename R, typename... A>
constexpr size_t shape(R (*)(A...)) {
  size_t n = sizeof...(A);
  ((n = n * 16 + sizeof(A)), ...);
  return n;
}
#define CUDA_CALL(member, theirs) static_assert(shape(decltype(cuda::Functions::member){}) == shape(&theirs), #theirs)
CUDA_CALL(init, cuInit);
CUDA_CALL(pciBusId, cuDeviceGetPCIBusId);
CUDA_CALL(retainContext, cuDevicePrimaryCtxRetain);
CUDA_CALL(releaseContext, cuDevicePrimaryCtxRelease);
CUDA_CALL(allocate, cuMemAlloc);
CUDA_CALL(allocateHost, cuMemAllocHost);
CUDA_CALL(copyToDevice, cuMemcpyHtoDAsync);
CUDA_CALL(copyToHost, cuMemcpyDtoHAsync);
CUDA_CALL(copyOnDevice, cuMemcpyDtoDAsync);
CUDA_CALL(copyToPeer, cuMemcpyPeerAsync);
CUDA_CALL(canAccessPeer, cuDeviceCanAccessPeer);
CUDA_CALL(enablePeer, cuCtxEnablePeerAccess);
CUDA_CALL(createStream, cuStreamCreate);
CUDA_CALL(createEvent, cuEventCreate);
CUDA_CALL(elapsedMs, cuEventElapsedTime);
CUDA_CALL(loadModule, cuModuleLoadData);
CUDA_CALL(unloadModule, cuModuleUnload);
CUDA_CALL(function, cuModuleGetFunction);
CUDA_CALL(launch, cuLaunchKernel);
static_assert(cuda::kPeerAccessAlready == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(sizeof(cuda::Pointer) == sizeof(CUdeviceptr));

#define BLAS_CALL(member, theirs) \
  static_assert(shape(decltype(cublaslt::Functions::member){}) == shape(&theirs), #theirs)
BLAS_CALL(create, cublasLtCreate);
BLAS_CALL(createDesc, cublasLtMatmulDescCreate);
BLAS_CALL(setDesc, cublasLtMatmulDescSetAttribute);
BLAS_CALL(createLayout, cublasLtMatrixLayoutCreate);
BLAS_CALL(createPreference, cublasLtMatmulPreferenceCreate);
BLAS_CALL(setPreference, cublasLtMatmulPreferenceSetAttribute);
BLAS_CALL(heuristic, cublasLtMatmulAlgoGetHeuristic);
BLAS_CALL(multiply, cublasLtMatmul);
static_assert(sizeof(cublaslt::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublaslt::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(int{cublaslt::kBf16} == int{CUDA_R_16BF} && int{cublaslt::kFp16} == int{CUDA_R_16F});
static_assert(int{cublaslt::kFp32} == int{CUDA_R_32F} && int{cublaslt::kFp64} == int{CUDA_R_64F});
static_assert(int{cublaslt::kFp8} == int{CUDA_R_8F_E4M3});
static_assert(int{cublaslt::kCompute32} == int{CUBLAS_COMPUTE_32F} &&
              int{cublaslt::kCompute64} == int{CUBLAS_COMPUTE_64F});
static_assert(int{cublaslt::kComputeTf32} == int{CUBLAS_COMPUTE_32F_FAST_TF32});
static_assert(cublaslt::kDescTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(cublaslt::kPreferWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(cublaslt::kTransposed == CUBLAS_OP_T);

}  // namespace
}  // namespace tracesmith
