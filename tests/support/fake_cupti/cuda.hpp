// A CUDA program's view of CUDA, without CUDA: starts it as libcuda does, and lets a "GPU" work.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "driver.hpp"

namespace tracesmith::fake {

/// CUDA in this process. Everything that CUPTI records is also written to $FAKE_CUDA_LOG, a line each, at once:
///   type|name|start|end|correlation|stream|device|bytes|graph|graph node|thread
/// with "lost" in place of the type when CUPTI had no buffer for it.
class Cuda {
 public:
  /// cuInit: loads the library $CUDA_INJECTION64_PATH names and calls it, as libcuda does. A bad one is passed over.
  void init();
  /// The stand-in, if somebody loaded it; nullptr: nobody records.
  const Driver* cupti();

  /// A kernel and the calls that launched it: cudaLaunchKernel, in it cuLaunchKernel. Returns its correlation.
  uint32_t launch(const std::string& name, uint32_t stream = 7, bool ended = true);
  /// cuLaunchKernelEx, as NCCL calls it. Returns the correlation of the kernel.
  uint32_t launchCall();
  /// A kernel that ran without anybody having called for it here; for kernels NCCL launches.
  void kernel(const char* name, uint32_t stream, uint64_t start, uint64_t end, uint32_t correlation);
  void copy(uint64_t bytes);
  /// cudaMemcpyAsync, and when what it began runs.
  Work copyCall(uint64_t bytes, uint32_t stream);
  void runCopy(Work work);
  void peerCopy(uint64_t bytes, uint32_t to);
  void set(uint64_t bytes);
  void graph(uint32_t id, int nodes);
  /// cudaGraphLaunch of one with these kernels, which run after the call.
  void graph(uint32_t id, const std::vector<std::string>& kernels, uint32_t stream);
  void sync(uint32_t type);
  void overhead(uint32_t type);
  void call(uint32_t cbid);        ///< a runtime call that launches nothing
  void driverCall(uint32_t cbid);  ///< a driver call that launches nothing
  void badTimes();                 ///< four kernels whose times cannot be true

  uint64_t now();
  uint32_t nextCorrelation() { return ++correlation_; }

 private:
  void log(const char* type, Fate fate, const Work& w, const char* name);
  Work work(uint64_t duration_ns);

  std::atomic<uint32_t> correlation_{0};
  std::atomic<const Driver*> driver_{nullptr};
};

const char* keep(const std::string& name);  ///< a copy that lives as long as the process, as names of kernels do

}  // namespace tracesmith::fake
