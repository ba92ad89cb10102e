#include "hardware/nvidia/cuda.hpp"

#include <glob.h>

#include <cstdlib>

#include "base/library.hpp"

namespace tracesmith::cuda {
namespace {

Status failed(const char* what, int code) {
  return Status::io(std::string("CUDA: ") + what + " failed (" + std::to_string(code) + ")");
}

std::vector<std::string> filesLike(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return out;
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::open() {
  std::unique_ptr<Driver> d(new Driver);
  const char* given = std::getenv("TRACESMITH_CUDA");
  Result<SharedLibrary> library = SharedLibrary::load({given ? given : "libcuda.so.1"}, SharedLibrary::Symbols::global);
  if (!library) return Status::notFound("no CUDA driver: libcuda.so.1 cannot be loaded");
  bool all = true;
#define FUNCTION(member, symbol, arguments) all &= library->find(d->f_.member, symbol);
  TS_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
  if (!all) return Status::unsupported("the CUDA driver is too old: a function is missing");
  if (int r = d->f_.init(0)) return failed("cuInit", r);
  int count = 0;
  if (int r = d->f_.count(&count)) return failed("counting devices", r);
  for (int i = 0; i < count; ++i) {
    Gpu gpu;
    char pci[32] = "";
    if (int r = d->f_.device(&gpu.device, i)) return failed("cuDeviceGet", r);
    if (int r = d->f_.pciBusId(pci, sizeof pci, gpu.device)) return failed("cuDeviceGetPCIBusId", r);
    for (char* c = pci; *c; ++c)
      if (*c >= 'A' && *c <= 'Z') *c = static_cast<char>(*c - 'A' + 'a');
    gpu.pci = pci;
    if (gpu.pci.size() == 16) gpu.pci = gpu.pci.substr(4);
    d->gpus_.push_back(gpu);
  }
  return d;
}

Driver::~Driver() {
  for (Gpu& g : gpus_) {
    if (!g.context) continue;
    (void)f_.setContext(g.context);
    if (g.begin) (void)f_.destroyEvent(g.begin);
    if (g.end) (void)f_.destroyEvent(g.end);
    if (g.stream) (void)f_.destroyStream(g.stream);
    (void)f_.releaseContext(g.device);
  }
}

Status Driver::use(size_t i) {
  Gpu& g = gpus_[i];
  if (!g.context)
    if (int r = f_.retainContext(&g.context, g.device)) return failed("making a context", r);
  if (int r = f_.setContext(g.context)) return failed("cuCtxSetCurrent", r);
  if (g.stream) return {};
  if (int r = f_.createStream(&g.stream, 1)) return failed("cuStreamCreate", r);
  if (int r = f_.createEvent(&g.begin, 0)) return failed("cuEventCreate", r);
  if (int r = f_.createEvent(&g.end, 0)) return failed("cuEventCreate", r);
  return {};
}

Result<cublaslt::Functions> loadCublasLt() {
  std::vector<std::string> names;
  if (const char* given = std::getenv("TRACESMITH_CUBLASLT")) {
    names.push_back(given);
  } else {
    names = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"};
    for (const char* pattern :
         {"/usr/local/cuda*/lib64/libcublasLt.so.*", "/usr/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.*",
          "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.*",
          "~/.local/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.*",
          "/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.*"})
      for (std::string& file : filesLike(pattern)) names.push_back(std::move(file));
  }
  Result<SharedLibrary> library = SharedLibrary::load(names);
  if (!library) return Status::notFound("cuBLASLt not found: set TRACESMITH_CUBLASLT to its libcublasLt.so");
  cublaslt::Functions f;
  bool all = true;
#define FUNCTION(member, symbol, arguments) all &= library->find(f.member, symbol);
  TS_CUBLASLT_FUNCTIONS(FUNCTION)
#undef FUNCTION
  if (!all) return Status::unsupported("this cuBLASLt lacks a function we need");
  return f;
}

}  // namespace tracesmith::cuda
