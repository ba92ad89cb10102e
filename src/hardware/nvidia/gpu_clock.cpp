#include "hardware/nvidia/gpu_clock.hpp"

#include "base/clock.hpp"

namespace tracesmith::cuda {
namespace {

constexpr int kReadings = 16;
constexpr int64_t kPatienceNs = 1'000'000'000;  // a kernel of one thread takes microseconds; a hung GPU forever
constexpr int64_t kTickNs = 1024;               // %globaltimer moves on in steps of up to this, depending on the GPU

// For the oldest GPUs that drivers still compile for; newer ones take it too. The host polls the memory it writes.
constexpr const char* kProgram = R"(.version 6.0
.target sm_50
.address_size 64
.visible .entry tracesmith_read_clock(.param .u64 out)
{
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u64 %rd3, %globaltimer;
  st.volatile.global.u64 [%rd2], %rd3;
  membar.sys;
  ret;
}
)";

Status failed(const char* what, int code) {
  return Status::io(std::string("cannot read the GPU's clock: ") + what + " failed (CUDA error " +
                    std::to_string(code) + ")");
}

/// What one reading needs on the GPU; its context must be current.
struct Kernel {
  const Functions& calls;
  Stream stream;
  Module module = nullptr;
  Function function = nullptr;
  void* answer = nullptr;  // of the host, and mapped: the GPU writes it

  ~Kernel() {
    if (answer) (void)calls.freeHost(answer);
    if (module) (void)calls.unloadModule(module);
  }
  Status prepare() {
    if (int r = calls.loadModule(&module, kProgram)) return failed("cuModuleLoadData", r);
    if (int r = calls.function(&function, module, "tracesmith_read_clock")) return failed("cuModuleGetFunction", r);
    if (int r = calls.allocateHost(&answer, sizeof(uint64_t))) return failed("cuMemAllocHost", r);
    return {};
  }
  Result<ClockReading> read() {
    auto* value = static_cast<uint64_t*>(answer);
    __atomic_store_n(value, 0, __ATOMIC_SEQ_CST);
    auto pointer = static_cast<Pointer>(reinterpret_cast<uintptr_t>(answer));
    void* arguments[] = {&pointer};
    const int64_t before = rawClock();
    if (int r = calls.launch(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr))
      return failed("cuLaunchKernel", r);
    int64_t after = before;
    uint64_t gpu = 0;
    while (!(gpu = __atomic_load_n(value, __ATOMIC_ACQUIRE)) && after - before < kPatienceNs) after = rawClock();
    after = rawClock();
    if (!gpu) return Status::io("cannot read the GPU's clock: the GPU does not answer");
    ClockReading r;
    r.raw_ns = before + (after - before) / 2;
    r.offset_ns = static_cast<int64_t>(gpu) - r.raw_ns;
    r.round_trip_ns = after - before;
    r.bound_ns = (after - before + 1) / 2 + kTickNs;
    return r;
  }
};

}  // namespace

Result<ClockReading> readGpuClock(Driver& driver, size_t gpu) {
  if (gpu >= driver.gpus().size())
    return Status::notFound("there is no GPU " + std::to_string(gpu) + " here: CUDA sees " +
                            std::to_string(driver.gpus().size()));
  TS_TRY(driver.use(gpu));
  Kernel kernel{driver.calls(), driver.gpus()[gpu].stream};
  TS_TRY(kernel.prepare());
  Result<ClockReading> best = kernel.read();
  for (int i = 1; i < kReadings && best; ++i) {
    Result<ClockReading> next = kernel.read();
    if (!next) return next.status();
    if (next->bound_ns < best->bound_ns) best = *next;
  }
  return best;
}

}  // namespace tracesmith::cuda
