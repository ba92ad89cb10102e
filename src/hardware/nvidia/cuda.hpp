// CUDA's driver and cuBLASLt for measurements: contexts are made, so never by the sampler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hardware/nvidia/cuda_abi.hpp"
#include "tracesmith/common/status.hpp"

namespace tracesmith::cuda {

/// The driver, started. Not thread safe.
class Driver {
 public:
  static Result<std::unique_ptr<Driver>> open();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  struct Gpu {
    int device = 0;
    std::string pci;  ///< "0000:18:00.0"
    Context context = nullptr;
    Stream stream = nullptr;
    Event begin = nullptr, end = nullptr;
  };
  const std::vector<Gpu>& gpus() const { return gpus_; }
  const Functions& calls() const { return f_; }
  /// Makes the GPU's context the current one, creating it when first asked for.
  Status use(size_t gpu);

 private:
  Driver() = default;
  Functions f_;
  std::vector<Gpu> gpus_;
};

/// cuBLASLt from the loader's path, CUDA's folder, Python's packages, or $TRACESMITH_CUBLASLT. Stays loaded.
Result<cublaslt::Functions> loadCublasLt();

}  // namespace tracesmith::cuda
