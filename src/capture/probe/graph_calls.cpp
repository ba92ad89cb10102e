// When preloaded, these stand before CUDA's own functions: what becomes of graphs that operations of NCCL were captured
// into. Each passes the call on and costs a few ns besides; nothing is looked at before the first such capture.
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <atomic>

#include "capture/probe/graphs.hpp"

using namespace tracesmith;

namespace {

using Word = void*;
/// Passes on as many arguments as any of these functions has: CUDA 11 and 12 differ in how many.
using Function = int (*)(Word, Word, Word, Word, Word, Word);
constexpr int kNotInitialized = 3;  // in both of CUDA's lists of errors

struct Wanted {
  const char* library;
  void* handle;
};

int openLoaded(dl_phdr_info* info, size_t, void* data) {
  auto* wanted = static_cast<Wanted*>(data);
  const char* base = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
  if (!base || strncmp(base + 1, wanted->library, strlen(wanted->library)) != 0) return 0;
  wanted->handle = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
  return wanted->handle != nullptr;
}

/// CUDA's own function. Python loads its libraries out of everybody's sight (RTLD_LOCAL), where RTLD_NEXT does not find
/// them.
Function real(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return reinterpret_cast<Function>(next);
  Wanted wanted{strncmp(name, "cuda", 4) == 0 ? "libcudart.so" : "libcuda.so", nullptr};
  dl_iterate_phdr(openLoaded, &wanted);
  return reinterpret_cast<Function>(wanted.handle ? dlsym(wanted.handle, name) : nullptr);
}

/// Looked for again until it is there: a program may have found ours before CUDA was loaded.
Function function(std::atomic<Function>& found, const char* name) {
  Function f = found.load(std::memory_order_relaxed);
  if (!f) found.store(f = real(name), std::memory_order_relaxed);
  return f;
}

// The runtime may call the driver through here: the outer call counts. Static TLS: the dynamic kind would allocate.
__attribute__((tls_model("initial-exec"))) thread_local int t_depth = 0;

template <typename After>
int pass(Function function, Word a, Word b, Word c, Word d, Word e, Word f, After after) {
  if (!function) return kNotInitialized;
  ++t_depth;
  const int result = function(a, b, c, d, e, f);
  if (--t_depth == 0 && result == 0) after();
  return result;
}

}  // namespace

#define TS_GRAPH_CALL(name, after)                                         \
  TS_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f);      \
  TS_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f) {     \
    static std::atomic<Function> found{nullptr};                           \
    return pass(function(found, #name), a, b, c, d, e, f, [&] { after; }); \
  }
#define TS_CALL_AFTER(name, before)                                    \
  TS_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f);  \
  TS_EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f) { \
    static std::atomic<Function> found{nullptr};                       \
    if (t_depth == 0) before;                                          \
    return pass(function(found, #name), a, b, c, d, e, f, [] {});      \
  }
/// Told before: the GPU may be at work before the call returns, and the call may wait for the GPU.
#define TS_LAUNCH_CALL(name) TS_CALL_AFTER(name, if (probe::watchesGraphs()) probe::graphLaunched(a, b))

#define TS_INSTANTIATE(name) TS_GRAPH_CALL(name, probe::graphInstantiated(*static_cast<Word*>(a), b))
TS_INSTANTIATE(cudaGraphInstantiate)
TS_INSTANTIATE(cudaGraphInstantiateWithFlags)
TS_INSTANTIATE(cudaGraphInstantiateWithParams)
TS_INSTANTIATE(cudaGraphInstantiateWithParams_ptsz)
TS_INSTANTIATE(cuGraphInstantiate)
TS_INSTANTIATE(cuGraphInstantiate_v2)
TS_INSTANTIATE(cuGraphInstantiateWithFlags)
TS_INSTANTIATE(cuGraphInstantiateWithParams)
TS_INSTANTIATE(cuGraphInstantiateWithParams_ptsz)
TS_GRAPH_CALL(cudaGraphExecUpdate, probe::graphInstantiated(a, b))
TS_GRAPH_CALL(cuGraphExecUpdate, probe::graphInstantiated(a, b))
TS_GRAPH_CALL(cuGraphExecUpdate_v2, probe::graphInstantiated(a, b))
TS_GRAPH_CALL(cudaGraphClone, probe::graphCopied(*static_cast<Word*>(a), b))
TS_GRAPH_CALL(cuGraphClone, probe::graphCopied(*static_cast<Word*>(a), b))
// (node*, graph, dependencies, how many, child)
TS_GRAPH_CALL(cudaGraphAddChildGraphNode, probe::graphCopied(b, e))
TS_GRAPH_CALL(cuGraphAddChildGraphNode, probe::graphCopied(b, e))
// Afterwards another may have the handle.
TS_CALL_AFTER(cudaGraphDestroy, probe::graphDestroyed(a))
TS_CALL_AFTER(cuGraphDestroy, probe::graphDestroyed(a))
TS_CALL_AFTER(cudaGraphExecDestroy, probe::execDestroyed(a))
TS_CALL_AFTER(cuGraphExecDestroy, probe::execDestroyed(a))
TS_LAUNCH_CALL(cudaGraphLaunch)
TS_LAUNCH_CALL(cudaGraphLaunch_ptsz)
TS_LAUNCH_CALL(cuGraphLaunch)
TS_LAUNCH_CALL(cuGraphLaunch_ptsz)
