// When preloaded, these functions replace CUPTI's own for the rest of the process: torch.profiler's calls
// pass through here. It takes the activity API for itself; we step aside and come back when it lets go, also when it
// ends CUPTI as a whole.
#include <dlfcn.h>

#include "capture/probe/cupti_library.hpp"
#include "capture/probe/graph_nodes.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
void stepAside(cupti::BufferCompleted other);
void otherIsDone();
void cuptiEnds();
}  // namespace tracesmith::probe

using namespace tracesmith;

namespace {

/// CUPTI's own function. Python loads libcupti with RTLD_LOCAL, where RTLD_NEXT does not find it.
template <typename F>
F real(const char* name) {
  void* library = probe::loadedCupti();
  void* symbol = library ? dlsym(library, name) : nullptr;
  return reinterpret_cast<F>(symbol ? symbol : dlsym(RTLD_NEXT, name));
}

constexpr int kNotInitialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED: there is no CUPTI to call

}  // namespace

TS_EXPORT int cuptiActivityRegisterCallbacks(cupti::BufferRequested requested, cupti::BufferCompleted completed) {
  static auto function = real<decltype(&cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks");
  if (!function) return kNotInitialized;
  probe::stepAside(completed);  // our own calls go to CUPTI directly and never come through here
  return function(requested, completed);
}

TS_EXPORT int cuptiActivityDisable(uint32_t kind) {
  static auto function = real<decltype(&cuptiActivityDisable)>("cuptiActivityDisable");
  if (!function) return kNotInitialized;
  int result = function(kind);
  // It turned kernel records off: it is done, except for fetching its last buffers.
  if (kind == cupti::kConcurrentKernel) probe::otherIsDone();
  return result;
}

TS_EXPORT int cuptiSubscribe(cupti::Subscriber* subscriber, cupti::Callback callback, void* user) {
  static auto function = real<decltype(&cuptiSubscribe)>("cuptiSubscribe");
  if (!function) return kNotInitialized;
  probe::giveUpCaptures();  // there can only be one
  return function(subscriber, callback, user);
}

TS_EXPORT int cuptiFinalize() {
  static auto function = real<decltype(&cuptiFinalize)>("cuptiFinalize");
  if (!function) return kNotInitialized;
  probe::giveUpCaptures();
  probe::cuptiEnds();
  return function();
}
