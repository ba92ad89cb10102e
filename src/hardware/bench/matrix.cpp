#include "hardware/bench/matrix.hpp"

#include <cmath>
#include <cstring>
#include <random>

namespace tracesmith::hardware {
namespace {

struct Kind {
  const char* name;
  cublaslt::Type in, out;
  cublaslt::Compute compute;
  int bytes;
  uint64_t size;  // of the square matrices
};

constexpr Kind kKinds[] = {
    {"bf16", cublaslt::kBf16, cublaslt::kBf16, cublaslt::kCompute32, 2, 8192},
    {"fp16", cublaslt::kFp16, cublaslt::kFp16, cublaslt::kCompute32, 2, 8192},
    {"tf32", cublaslt::kFp32, cublaslt::kFp32, cublaslt::kComputeTf32, 4, 8192},
    {"fp8", cublaslt::kFp8, cublaslt::kBf16, cublaslt::kCompute32, 1, 8192},
    {"fp64", cublaslt::kFp64, cublaslt::kFp64, cublaslt::kCompute64, 8, 4096},
};

/// Numbers between −1 and 1 in the type's own bits: a GPU that multiplies zeros draws less and runs faster.
std::vector<char> randomValues(const Kind& kind, size_t count) {
  std::vector<char> out(count * static_cast<size_t>(kind.bytes));
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (size_t i = 0; i < count; ++i) {
    char* to = out.data() + i * static_cast<size_t>(kind.bytes);
    const double v = uniform(random);
    if (kind.in == cublaslt::kFp64) {
      std::memcpy(to, &v, 8);
    } else if (kind.in == cublaslt::kFp32) {
      const auto f = static_cast<float>(v);
      std::memcpy(to, &f, 4);
    } else if (kind.in == cublaslt::kBf16) {
      const auto f = static_cast<float>(v);
      std::memcpy(to, reinterpret_cast<const char*>(&f) + 2, 2);  // its upper half
    } else if (kind.in == cublaslt::kFp16) {
      const uint16_t h = static_cast<uint16_t>((random() & 0x8000) | (0x2c00 + (random() & 0x0fff)));  // 0.06 to 1
      std::memcpy(to, &h, 2);
    } else {
      *to = static_cast<char>((random() & 0x80) | (0x20 + (random() & 0x17)));
    }
  }
  return out;
}

class Product {
 public:
  Product(const cublaslt::Functions& f, const Kind& kind) : f_(f), kind_(kind) {}
  ~Product() {
    if (preference_) (void)f_.destroyPreference(preference_);
    for (void* l : {a_, b_, c_})
      if (l) (void)f_.destroyLayout(l);
    if (desc_) (void)f_.destroyDesc(desc_);
    if (handle_) (void)f_.destroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Status prepare(size_t workspace) {
    const uint64_t n = kind_.size;
    const auto ld = static_cast<int64_t>(n);
    const int transposed = cublaslt::kTransposed;
    const int scale_type = kind_.in == cublaslt::kFp64 ? cublaslt::kFp64 : cublaslt::kFp32;
    int found = 0;
    int r = f_.create(&handle_);
    if (!r) r = f_.createDesc(&desc_, kind_.compute, scale_type);
    if (!r)
      r = f_.setDesc(desc_, cublaslt::kDescTransposeA, &transposed, sizeof transposed);  // fp8 knows only this form
    if (!r) r = f_.createLayout(&a_, kind_.in, n, n, ld);
    if (!r) r = f_.createLayout(&b_, kind_.in, n, n, ld);
    if (!r) r = f_.createLayout(&c_, kind_.out, n, n, ld);
    if (!r) r = f_.createPreference(&preference_);
    if (!r) r = f_.setPreference(preference_, cublaslt::kPreferWorkspace, &workspace, sizeof workspace);
    if (!r) r = f_.heuristic(handle_, desc_, a_, b_, c_, c_, preference_, 1, &best_, &found);
    if (r != 0 || found == 0) return Status::unsupported("cuBLASLt does not support it (" + std::to_string(r) + ")");
    return {};
  }

  int run(cuda::Pointer a, cuda::Pointer b, cuda::Pointer c, cuda::Pointer workspace, size_t size,
          cuda::Stream stream) {
    const float one = 1, zero = 0;
    const double done = 1, dzero = 0;
    const bool d = kind_.in == cublaslt::kFp64;
    auto at = [](cuda::Pointer p) { return reinterpret_cast<void*>(static_cast<uintptr_t>(p)); };
    return f_.multiply(handle_, desc_, d ? static_cast<const void*>(&done) : &one, at(a), a_, at(b), b_,
                       d ? static_cast<const void*>(&dzero) : &zero, at(c), c_, at(c), c_, &best_.algorithm,
                       at(workspace), size, stream);
  }

 private:
  const cublaslt::Functions& f_;
  const Kind& kind_;
  cublaslt::Handle handle_ = nullptr;
  void *desc_ = nullptr, *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *preference_ = nullptr;
  cublaslt::Heuristic best_{};
};

Status benchKind(const BenchOptions& o, const cuda::Driver& driver, size_t gpu, const cublaslt::Functions& cublas,
                 const Kind& kind, const std::string& part, Capability& out) {
  const cuda::Functions& f = driver.calls();
  const cuda::Stream stream = driver.gpus()[gpu].stream;
  constexpr size_t kWorkspace = 64u << 20;
  const size_t elements = kind.size * kind.size, bytes = elements * static_cast<size_t>(kind.bytes);
  const size_t out_bytes = elements * (kind.out == kind.in ? static_cast<size_t>(kind.bytes) : 2);
  cuda::Pointer p[4] = {};
  struct Free {
    const cuda::Functions& f;
    cuda::Pointer* p;
    ~Free() {
      for (int i = 0; i < 4; ++i)
        if (p[i]) (void)f.free(p[i]);
    }
  } freed{f, p};
  if (f.allocate(&p[0], bytes) || f.allocate(&p[1], bytes) || f.allocate(&p[2], out_bytes) ||
      f.allocate(&p[3], kWorkspace))
    return Status::exhausted("not enough memory on the GPU");
  const std::vector<char> values = randomValues(kind, 1 << 20);
  for (int m = 0; m < 2; ++m)
    for (size_t at = 0; at < bytes; at += values.size())
      if (f.copyToDevice(p[m] + at, values.data(), std::min(values.size(), bytes - at), stream))
        return Status::io("copying the matrices failed");
  if (f.synchronize(stream)) return Status::io("copying the matrices failed");
  Product product(cublas, kind);
  TS_TRY(product.prepare(kWorkspace));
  Result<std::vector<double>> seconds = timeOnGpu(
      driver, gpu, o.repetitions, o.seconds, [&] { return product.run(p[0], p[1], p[2], p[3], kWorkspace, stream); });
  if (!seconds) return seconds.status();
  std::vector<double> rates;
  const double operations = 2 * std::pow(static_cast<double>(kind.size), 3);
  for (double s : *seconds)
    if (s > 0) rates.push_back(operations / s * 1e-12);
  out.set(figure("gpu_matrix_tflops", "TFLOP/s", part + " " + kind.name, std::move(rates),
                 "square products of " + std::to_string(kind.size) + " by cuBLASLt, random values"));
  return {};
}

}  // namespace

void benchMatrix(const BenchOptions& o, const cuda::Driver& driver, size_t gpu, const cublaslt::Functions& cublas,
                 const std::string& part, Capability& out) {
  for (const Kind& kind : kKinds) {
    o.progress("matrix products of " + part + ", " + kind.name);
    if (Status s = benchKind(o, driver, gpu, cublas, kind, part, out); !s)
      out.notes.push_back(std::string(kind.name) + " products of " + part + " were not measured: " + s.message());
  }
}

}  // namespace tracesmith::hardware
