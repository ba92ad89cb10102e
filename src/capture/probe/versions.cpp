#include "capture/probe/versions.hpp"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

namespace tracesmith::probe {
namespace {

struct Found {
  char path[1024];
};

int findRuntime(dl_phdr_info* info, size_t, void* data) {
  const char* base = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
  if (!base || strncmp(base + 1, "libcudart.so", 12) != 0) return 0;
  strncpy(static_cast<Found*>(data)->path, info->dlpi_name, sizeof(Found) - 1);
  return 1;
}

/// The number that a function "int get(int*)" gives; 0: there is none.
int ask(void* library, const char* function) {
  auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, function));
  int version = 0;
  return get && get(&version) == 0 && version > 0 ? version : 0;
}

}  // namespace

void tellVersions(RingWriter& ring, const void* nccl) {
  ring::RingHeader& h = ring.header();
  char text[32];
  Dl_info from{};
  void* library = dladdr(nccl, &from) && from.dli_fname ? dlopen(from.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (const int v = ask(library ? library : RTLD_DEFAULT, "ncclGetVersion")) {
    if (v < 10000)  // until 2.8: 2708
      snprintf(text, sizeof text, "%d.%d.%d", v / 1000, v / 100 % 10, v % 100);
    else
      snprintf(text, sizeof text, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    h.nccl.store(ring.intern(text), std::memory_order_release);
  }
  if (library) dlclose(library);
  Found runtime{};
  library = dl_iterate_phdr(findRuntime, &runtime) ? dlopen(runtime.path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  if (!library) return;  // linked statically, or there is none
  if (const int v = ask(library, "cudaRuntimeGetVersion")) {
    snprintf(text, sizeof text, "%d.%d", v / 1000, v % 1000 / 10);
    h.cuda.store(ring.intern(text), std::memory_order_release);
  }
  dlclose(library);
}

}  // namespace tracesmith::probe
