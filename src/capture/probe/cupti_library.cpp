#include "capture/probe/cupti_library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

namespace tracesmith::probe {
namespace {

struct Found {
  char path[1024];
};

int findLoaded(dl_phdr_info* info, size_t, void* data) {
  const char* base = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
  if (!base || strncmp(base + 1, "libcupti.so", 11) != 0) return 0;
  strncpy(static_cast<Found*>(data)->path, info->dlpi_name, sizeof(Found) - 1);
  return 1;
}

}  // namespace

void* loadedCupti() {
  Found found{};
  return dl_iterate_phdr(findLoaded, &found) ? dlopen(found.path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
}

void* openCupti() {
  if (void* h = loadedCupti()) return h;
  if (const char* given = getenv("TRACESMITH_CUPTI"); given && *given) return dlopen(given, RTLD_NOW | RTLD_LOCAL);
  static const char* const kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
  for (const char* name : kNames)
    if (void* h = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return h;
  char path[1200];
  const char* homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda", "/usr/local/cuda-13.0",
                         "/usr/local/cuda-12"};
  for (const char* home : homes)
    for (const char* dir : {"extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"})
      for (const char* name : kNames) {
        if (!home) continue;
        snprintf(path, sizeof path, "%s/%s/%s", home, dir, name);
        if (void* h = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return h;
      }
  return nullptr;
}

bool resolveCupti(void* library, cupti::Functions& out) {
  auto get = [&](auto& function, const char* name) {
    *reinterpret_cast<void**>(&function) = dlsym(library, name);
    return function != nullptr;
  };
  bool good = get(out.ActivityRegisterCallbacks, "cuptiActivityRegisterCallbacks") &&
              get(out.ActivityEnable, "cuptiActivityEnable") && get(out.ActivityDisable, "cuptiActivityDisable") &&
              get(out.ActivityGetNextRecord, "cuptiActivityGetNextRecord") &&
              get(out.ActivityFlushAll, "cuptiActivityFlushAll");
  get(out.ActivityEnableRuntimeApi, "cuptiActivityEnableRuntimeApi");
  get(out.ActivityEnableDriverApi, "cuptiActivityEnableDriverApi");
  get(out.ActivityGetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords");
  get(out.ActivityRegisterTimestampCallback, "cuptiActivityRegisterTimestampCallback");
  get(out.ActivitySetAttribute, "cuptiActivitySetAttribute");
  get(out.SetThreadIdType, "cuptiSetThreadIdType");
  get(out.GetVersion, "cuptiGetVersion");
  get(out.GetCallbackName, "cuptiGetCallbackName");
  get(out.GetStreamIdEx, "cuptiGetStreamIdEx");
  get(out.Subscribe, "cuptiSubscribe");
  get(out.Unsubscribe, "cuptiUnsubscribe");
  get(out.EnableCallback, "cuptiEnableCallback");
  get(out.GetGraphNodeId, "cuptiGetGraphNodeId");
  get(out.GetGraphId, "cuptiGetGraphId");
  return good;
}

}  // namespace tracesmith::probe
