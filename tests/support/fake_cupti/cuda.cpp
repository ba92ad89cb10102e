#include "cuda.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace tracesmith::fake {
namespace {

uint32_t threadId() { return static_cast<uint32_t>(::syscall(SYS_gettid)); }

int findCupti(dl_phdr_info* info, size_t, void* data) {
  const char* base = std::strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
  if (!base || std::strncmp(base + 1, "libcupti.so", 11) != 0) return 0;
  *static_cast<std::string*>(data) = info->dlpi_name;
  return 1;
}

}  // namespace

const char* keep(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;  // never freed: records point to them
  std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

void Cuda::init() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  if (void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL))
    if (void* entry = ::dlsym(library, "InitializeInjection")) reinterpret_cast<int (*)()>(entry)();
}

const Driver* Cuda::cupti() {
  if (const Driver* known = driver_.load()) return known;
  std::string path;
  if (!::dl_iterate_phdr(findCupti, &path)) return nullptr;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* entry = library ? ::dlsym(library, "fakeCuptiDriver") : nullptr;
  if (entry) driver_ = reinterpret_cast<const Driver* (*)()>(entry)();
  return driver_.load();
}

uint64_t Cuda::now() {
  if (const Driver* d = cupti()) return d->now();
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(t.tv_nsec);
}

void Cuda::log(const char* type, Fate fate, const Work& w, const char* name) {
  static const int fd = [] {
    const char* path = std::getenv("FAKE_CUDA_LOG");
    return path ? ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  }();
  if (fd < 0 || fate == kOff) return;
  char line[512];
  int n = std::snprintf(line, sizeof line, "%s|%s|%llu|%llu|%u|%u|%u|%llu|%u|%llu|%u\n", fate == kKept ? type : "lost",
                        name, static_cast<unsigned long long>(w.start), static_cast<unsigned long long>(w.end),
                        w.correlation, w.stream, w.device, static_cast<unsigned long long>(w.bytes), w.graph,
                        static_cast<unsigned long long>(w.graph_node), w.thread);
  (void)!::write(fd, line, static_cast<size_t>(n));
}

Work Cuda::work(uint64_t duration_ns) {
  Work w;
  w.end = now();
  w.start = w.end - duration_ns;
  w.correlation = nextCorrelation();
  return w;
}

uint32_t Cuda::launch(const std::string& name, uint32_t stream, bool ended) {
  const Driver* d = cupti();
  if (!d) return 0;
  Work w = work(1000);
  w.thread = threadId();
  w.cbid = 211;
  log("runtime", d->runtime(w), w, "cudaLaunchKernel");
  w.cbid = 307;
  log("driver", d->driver(w), w, "cuLaunchKernel");
  w.thread = 0;
  w.name = keep(name);
  w.stream = stream;
  w.grid[0] = static_cast<int32_t>(1 + w.correlation % 5);
  w.start = now() - 500;
  w.end = ended ? w.start + 500 : 0;
  const Fate fate = d->kernel(w);
  if (ended) log("kernel", fate, w, w.name);
  return w.correlation;
}

uint32_t Cuda::launchCall() {
  const Driver* d = cupti();
  if (!d) return nextCorrelation();
  Work w = work(0);
  w.thread = threadId();
  w.cbid = 652;
  log("driver", d->driver(w), w, "cuLaunchKernelEx");
  return w.correlation;
}

void Cuda::kernel(const char* name, uint32_t stream, uint64_t start, uint64_t end, uint32_t correlation) {
  const Driver* d = cupti();
  if (!d) return;
  Work w;
  w.name = keep(name);
  w.stream = stream;
  w.start = start;
  w.end = end;
  w.correlation = correlation;
  log("kernel", d->kernel(w), w, name);
}

void Cuda::copy(uint64_t bytes) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(300);
  w.thread = threadId();
  w.cbid = 41;
  log("runtime", d->runtime(w), w, "cudaMemcpyAsync");
  w.thread = 0;
  w.bytes = bytes;
  log("memcpy", d->memcpy(w), w, "Memcpy HtoD (Pageable -> Device)");
}

Work Cuda::copyCall(uint64_t bytes, uint32_t stream) {
  Work w = work(0);
  const Driver* d = cupti();
  if (!d) return w;
  w.thread = threadId();
  w.cbid = 41;
  log("runtime", d->runtime(w), w, "cudaMemcpyAsync");
  w.thread = 0;
  w.bytes = bytes;
  w.stream = stream;
  return w;
}

void Cuda::runCopy(Work w) {
  const Driver* d = cupti();
  if (!d) return;
  w.start = now();
  while (now() < w.start + 2) {
  }
  w.end = w.start + 2;
  log("memcpy", d->memcpy(w), w, "Memcpy HtoD (Pageable -> Device)");
}

void Cuda::peerCopy(uint64_t bytes, uint32_t to) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(300);
  w.bytes = bytes;
  w.device = 1;
  w.peer = to;
  log("memcpy", d->peer(w), w, "Memcpy PtoP (Device -> Device)");
}

void Cuda::set(uint64_t bytes) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(300);
  w.bytes = bytes;
  log("memset", d->memset(w), w, "Memset (Device)");
}

void Cuda::graph(uint32_t id, int nodes) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(100 * static_cast<uint64_t>(nodes));
  w.thread = threadId();
  w.cbid = 311;
  log("runtime", d->runtime(w), w, "cudaGraphLaunch");
  w.thread = 0;
  w.graph = id;
  // One record for the whole launch if that is asked for, otherwise one for each kernel in it.
  if (Fate fate = d->graph(w); fate != kOff) return log("graph", fate, w, "CUDA graph");
  for (int i = 0; i < nodes; ++i) {
    Work k = w;
    k.start = w.start + 100 * static_cast<uint64_t>(i);
    k.end = k.start + 100;
    k.name = "node";
    k.graph_node = (static_cast<uint64_t>(id) << 32) + static_cast<uint64_t>(i) + 1;
    log("kernel", d->kernel(k), k, k.name);
  }
}

void Cuda::graph(uint32_t id, const std::vector<std::string>& kernels, uint32_t stream) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(0);
  w.thread = threadId();
  w.cbid = 311;
  log("runtime", d->runtime(w), w, "cudaGraphLaunch");
  w.thread = 0;
  w.graph = id;
  w.stream = stream;
  w.start = w.end + 100;
  w.end = w.start + 100 * kernels.size();
  while (now() < w.end) {
  }
  if (Fate fate = d->graph(w); fate != kOff) return log("graph", fate, w, "CUDA graph");
  for (size_t i = 0; i < kernels.size(); ++i) {
    Work k = w;
    k.start = w.start + 100 * i;
    k.end = k.start + 100;
    k.name = keep(kernels[i]);
    k.graph_node = (static_cast<uint64_t>(id) << 32) + i + 1;
    log("kernel", d->kernel(k), k, k.name);
  }
}

void Cuda::sync(uint32_t type) {
  static const char* const kNames[] = {"Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync",
                                       "Context Sync"};
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(200);
  w.type = type;
  // The host calls for it, but for what is not known. A default recording has only the call, and says what it waits
  // for; the stand-in's log says what the trace must.
  static const uint32_t kCalls[] = {0, 137, 147, 131, 165};
  static const char* const kCallNames[] = {"", "cudaEventSynchronize", "cudaStreamWaitEvent", "cudaStreamSynchronize",
                                           "cudaDeviceSynchronize"};
  w.cbid = kCalls[type];
  w.thread = threadId();
  const bool waits = type != 0 && type != 2, both = d->enabled(38) != 0;
  const bool as_wait = waits && !both;
  if (type != 0) log(as_wait ? "sync" : "runtime", d->runtime(w), w, as_wait ? kNames[type] : kCallNames[type]);
  w.thread = 0;
  log("sync", d->sync(w), w, kNames[type]);
}

void Cuda::overhead(uint32_t type) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(200);
  w.type = type;
  w.thread = threadId();
  w.correlation = 0;
  w.stream = 0;
  log("overhead", d->overhead(w), w, type == 1 ? "Buffer Flush" : "Resource");
}

void Cuda::call(uint32_t cbid) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(100);
  w.cbid = cbid;
  w.thread = threadId();
  log("runtime", d->runtime(w), w, cbid == 10 ? "cudaGetLastError" : "runtime call");
}

void Cuda::driverCall(uint32_t cbid) {
  const Driver* d = cupti();
  if (!d) return;
  Work w = work(100);
  w.cbid = cbid;
  w.thread = threadId();
  log("driver", d->driver(w), w, cbid == 12 ? "cuCtxGetCurrent" : "driver call");
}

void Cuda::badTimes() {
  const Driver* d = cupti();
  if (!d) return;
  const uint64_t t = now(), hour = 3600ull * 1'000'000'000;
  const struct { uint64_t start, end; } bad[] = {{0, 0}, {t, t - 1}, {t + hour, t + hour + 1}, {5, 10}};
  for (const auto& [start, end] : bad) {
    Work w;
    w.name = "impossible";
    w.start = start;
    w.end = end;
    d->kernel(w);
  }
}

}  // namespace tracesmith::fake
