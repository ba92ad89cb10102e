// What `tracesmith attach` and `tracesmith eval` call in a process, on a thread of its own that they have borrowed: it
// must not wait, so a thread of ours does the work.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/probe/probe.hpp"
#include "model/ring/attach.hpp"

namespace tracesmith::probe {
namespace {

ring::AttachRequest g_request;

/// Signals are for the job's threads.
int startThread(void* (*run)(void*), void* argument) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, run, argument);
  if (error == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return error;
}

/// Puts these in front of the variables that the C library has. Those of the process stay where they are: other threads
/// may be reading them. What is set already stays.
void addVariables(const char* const (*variables)[2], size_t count) {
  size_t had = 0;
  while (environ && environ[had]) ++had;
  char** all = static_cast<char**>(malloc((had + count + 1) * sizeof(char*)));
  if (!all) return;
  size_t n = 0;
  for (size_t i = 0; i < count; ++i) {
    if (getenv(variables[i][0])) continue;
    const size_t name = strlen(variables[i][0]), value = strlen(variables[i][1]);
    char* text = static_cast<char*>(malloc(name + value + 2));
    if (!text) continue;
    memcpy(text, variables[i][0], name);
    text[name] = '=';
    memcpy(text + name + 1, variables[i][1], value + 1);
    all[n++] = text;
  }
  for (size_t i = 0; i < had; ++i) all[n++] = environ[i];
  all[n] = nullptr;
  __atomic_store_n(&environ, all, __ATOMIC_RELEASE);
}

/// Whether somebody has called cuInit(): then CUDA did not load us, and will not.
bool cudaRuns() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!driver) return false;
  auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return count && count(&devices) == 0;
}

void* attach(void*) {
  pthread_setname_np(pthread_self(), "tracesmith");
  const ring::AttachRequest& q = g_request;
  // CUDA, NCCL and NVTX look at these when they start.
  const char* const variables[][2] = {{"CUDA_INJECTION64_PATH", q.library},
                                      {"NCCL_PROFILER_PLUGIN", q.library},
                                      {"NVTX_INJECTION64_PATH", q.library},
                                      {"TRACESMITH_PROBE", q.library}};
  addVariables(variables, sizeof variables / sizeof *variables);
  useFolder(q.folder, static_cast<Mode>(q.mode));
  RingWriter* r = startRing();
  if (!r) return nullptr;
  if (cudaRuns()) startCuda(*r, true);
  return nullptr;
}

void* evaluate(void* text) {
  pthread_setname_np(pthread_self(), "tracesmith");
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  const auto ensure = reinterpret_cast<int (*)()>(find("PyGILState_Ensure"));
  const auto release = reinterpret_cast<void (*)(int)>(find("PyGILState_Release"));
  const auto run = reinterpret_cast<int (*)(const char*, void*)>(find("PyRun_SimpleStringFlags"));
  const int state = ensure();
  run(static_cast<const char*>(text), nullptr);
  release(state);
  free(text);
  return nullptr;
}

}  // namespace
}  // namespace tracesmith::probe

using namespace tracesmith;
using namespace tracesmith::probe;

/// Starts the ring of this process. 0, or an error number.
TS_EXPORT int tracesmith_probe_attach(const void* request) {
  const auto* q = static_cast<const ring::AttachRequest*>(request);
  if (q->version != ring::kVersion) return EPROTO;
  if (RingWriter* r = ring::g_ring.load()) {
    if (r->header().pid == getpid()) return EALREADY;
  }
  g_request = *q;
  return startThread(attach, nullptr);
}

/// Runs Python code as soon as the interpreter lets a thread in. 0, or an error number; ENOSYS: there is no Python.
TS_EXPORT int tracesmith_probe_eval(const void* code) {
  for (const char* name : {"PyGILState_Ensure", "PyGILState_Release", "PyRun_SimpleStringFlags", "Py_IsInitialized"})
    if (!dlsym(RTLD_DEFAULT, name)) return ENOSYS;
  if (!reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"))()) return ENOSYS;
  char* text = strdup(static_cast<const char*>(code));
  if (!text) return ENOMEM;
  const int error = startThread(evaluate, text);
  if (error != 0) free(text);
  return error;
}
