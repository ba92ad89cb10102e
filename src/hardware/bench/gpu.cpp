// GPUs: copies by the CUDA driver, matrix products by cuBLASLt.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/text.hpp"
#include "hardware/bench/bench.hpp"
#include "hardware/bench/matrix.hpp"
#include "hardware/nvidia/cuda.hpp"

namespace tracesmith::hardware {
namespace {

constexpr size_t kCopy = 256u << 20;

/// Device memory that frees itself, in the context that was current when it was made.
class Buffer {
 public:
  Buffer(const cuda::Functions& f, size_t bytes) : f_(f) {
    if (f.allocate(&at_, bytes) != 0) at_ = 0;
  }
  ~Buffer() {
    if (at_) (void)f_.free(at_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  cuda::Pointer at() const { return at_; }

 private:
  const cuda::Functions& f_;
  cuda::Pointer at_ = 0;
};

class PinnedBuffer {
 public:
  PinnedBuffer(const cuda::Functions& f, size_t bytes) : f_(f) {
    if (f.allocateHost(&at_, bytes) != 0) at_ = nullptr;
    if (at_) std::memset(at_, 7, bytes);
  }
  ~PinnedBuffer() {
    if (at_) (void)f_.freeHost(at_);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* at() const { return at_; }

 private:
  const cuda::Functions& f_;
  void* at_ = nullptr;
};

/// Index in the inventory of one of CUDA's devices.
int32_t indexOf(const Inventory& inventory, const cuda::Driver::Gpu& gpu) {
  for (const Gpu& g : inventory.gpus)
    if (g.pci == gpu.pci) return g.index;
  return gpu.device;
}

std::string partOf(int32_t index) { return "gpu " + std::to_string(index); }

}  // namespace

Result<std::vector<double>> timeOnGpu(const cuda::Driver& driver, size_t gpu, int repetitions, double seconds,
                                      const std::function<int()>& work) {
  const cuda::Functions& f = driver.calls();
  const cuda::Driver::Gpu& g = driver.gpus()[gpu];
  auto run = [&](int times, double& took) {
    int r = f.record(g.begin, g.stream);
    for (int i = 0; i < times && r == 0; ++i) r = work();
    if (r == 0) r = f.record(g.end, g.stream);
    if (r == 0) r = f.waitFor(g.end);
    float ms = 0;
    if (r == 0) r = f.elapsedMs(&ms, g.begin, g.end);
    took = ms * 1e-3;
    return r;
  };
  double took = 0;
  if (int r = run(2, took)) return Status::io("CUDA call failed (" + std::to_string(r) + ")");  // warms up
  if (int r = run(2, took)) return Status::io("CUDA call failed (" + std::to_string(r) + ")");
  const int times = std::clamp(static_cast<int>(seconds / std::max(took / 2, 1e-6)), 1, 1000);
  std::vector<double> each;
  for (int i = 0; i < repetitions; ++i) {
    if (int r = run(times, took)) return Status::io("CUDA call failed (" + std::to_string(r) + ")");
    each.push_back(took / times);
  }
  return each;
}

namespace {

/// Turns seconds of one piece of work into a figure; a failure into a note.
void keep(Capability& out, const Result<std::vector<double>>& seconds, double amount, const char* name,
          const char* unit, const std::string& part, const std::string& how) {
  if (!seconds) {
    out.notes.push_back(std::string(name) + " of " + part + " was not measured: " + seconds.status().message());
    return;
  }
  std::vector<double> rates;
  for (double s : *seconds)
    if (s > 0) rates.push_back(amount / s);
  out.set(figure(name, unit, part, std::move(rates), how));
}

void benchHostCopies(const BenchOptions& o, const cuda::Driver& driver, size_t i, const std::string& part,
                     Capability& out) {
  const cuda::Functions& f = driver.calls();
  const cuda::Stream stream = driver.gpus()[i].stream;
  Buffer a(f, kCopy);
  PinnedBuffer host(f, kCopy);
  if (!a.at() || !host.at()) {
    out.notes.push_back("copies of " + part + " were not measured: out of memory");
    return;
  }
  const std::string how = "copies of " + humanBytes(kCopy) + ", pinned host memory, by the CUDA driver";
  o.progress("copies of " + part);
  keep(out,
       timeOnGpu(driver, i, o.repetitions, o.seconds, [&] { return f.copyToDevice(a.at(), host.at(), kCopy, stream); }),
       kCopy * 1e-9, "gpu_host_to_device_gbps", "GB/s", part, how);
  keep(out,
       timeOnGpu(driver, i, o.repetitions, o.seconds, [&] { return f.copyToHost(host.at(), a.at(), kCopy, stream); }),
       kCopy * 1e-9, "gpu_device_to_host_gbps", "GB/s", part, how);
}

}  // namespace

void benchGpus(const BenchOptions& o, const Inventory& inventory, Capability& out) {
  Result<std::unique_ptr<cuda::Driver>> driver = cuda::Driver::open();
  if (!driver) {
    out.notes.push_back("GPUs were not measured: " + driver.status().message());
    return;
  }
  Result<cublaslt::Functions> cublas = cuda::loadCublasLt();
  if (!cublas) out.notes.push_back("matrix products were not measured: " + cublas.status().message());
  for (size_t i = 0; i < (*driver)->gpus().size(); ++i) {
    const std::string part = partOf(indexOf(inventory, (*driver)->gpus()[i]));
    if (Status s = (*driver)->use(i); !s) {
      out.notes.push_back(part + " was not measured: " + s.message());
      continue;
    }
    const cuda::Functions& f = (*driver)->calls();
    benchHostCopies(o, **driver, i, part, out);
    {
      Buffer a(f, 4 * kCopy), b(f, 4 * kCopy);
      if (a.at() && b.at())
        keep(out,
             timeOnGpu(**driver, i, o.repetitions, o.seconds,
                       [&] { return f.copyOnDevice(b.at(), a.at(), 4 * kCopy, (*driver)->gpus()[i].stream); }),
             2 * 4 * kCopy * 1e-9, "gpu_memory_gbps", "GB/s", part,
             "copies of " + humanBytes(4 * kCopy) + " on the device; bytes read and written");
    }
    if (cublas) benchMatrix(o, **driver, i, *cublas, part, out);
  }
}

Status benchLinks(const BenchOptions& o, const Inventory& inventory, Capability& out) {
  Result<std::unique_ptr<cuda::Driver>> opened = cuda::Driver::open();
  if (!opened) return {opened.status().code(), "links were not measured: " + opened.status().message()};
  cuda::Driver& driver = **opened;
  const cuda::Functions& f = driver.calls();
  const size_t n = driver.gpus().size();
  for (size_t a = 0; a < n; ++a) {
    const int32_t from = indexOf(inventory, driver.gpus()[a]);
    if (Status s = driver.use(a); !s) {
      out.notes.push_back(partOf(from) + " was not measured: " + s.message());
      continue;
    }
    benchHostCopies(o, driver, a, partOf(from), out);
    for (size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const int32_t to = indexOf(inventory, driver.gpus()[b]);
      const std::string pair = std::to_string(from) + "-" + std::to_string(to);
      o.progress("link " + pair);
      if (!driver.use(b)) continue;
      Buffer there(f, kCopy);
      if (!driver.use(a)) continue;
      Buffer here(f, kCopy);
      int can = 0;
      (void)f.canAccessPeer(&can, driver.gpus()[a].device, driver.gpus()[b].device);
      if (can)
        if (int r = f.enablePeer(driver.gpus()[b].context, 0); r != 0 && r != cuda::kPeerAccessAlready) can = 0;
      if (!here.at() || !there.at()) {
        out.notes.push_back("link " + pair + " was not measured: out of memory");
        continue;
      }
      keep(out,
           timeOnGpu(driver, a, o.repetitions, o.seconds,
                     [&] {
                       return f.copyToPeer(there.at(), driver.gpus()[b].context, here.at(), driver.gpus()[a].context,
                                           kCopy, driver.gpus()[a].stream);
                     }),
           kCopy * 1e-9, "link_gbps", "GB/s", pair,
           "copies of " + humanBytes(kCopy) + (can ? ", peer access" : ", through the host: no peer access"));
      (void)driver.use(b);  // memory is freed where it was made
    }
  }
  if (n < 2) out.notes.push_back("no links between GPUs to measure: " + std::to_string(n) + " GPU");
  return {};
}

}  // namespace tracesmith::hardware
