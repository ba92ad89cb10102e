// A stand-in for libcudart, as far as it makes graphs of captured work and launches them, and for what the driver says
// about a capture. What a launch does the program says. A handle that was destroyed is the next one's.
#include "cudart.hpp"

#include <map>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace tracesmith::fake;

struct Thing {
  uint32_t id = 0;  // of a graph, for those made from it
};
std::vector<Thing*> g_free;
std::map<void*, std::pair<Thing*, uint64_t>> g_captures;  // by stream
uint64_t g_capture = 0;
uint32_t g_exec = 100;
Launched g_launched;

Thing* make(uint32_t id) {
  Thing* t = nullptr;
  if (g_free.empty()) {
    t = new Thing;
  } else {
    t = g_free.back();
    g_free.pop_back();
  }
  t->id = id;
  return t;
}

int destroy(void* thing) {
  g_free.push_back(static_cast<Thing*>(thing));
  return 0;
}

}  // namespace

EXPORT void fakeOnGraphLaunch(Launched launched) { g_launched = launched; }

EXPORT int cudaStreamBeginCapture(void* stream, int) {
  g_captures[stream] = {make(static_cast<uint32_t>(++g_capture)), g_capture};
  return 0;
}

EXPORT int cudaStreamEndCapture(void* stream, void** graph) {
  *graph = g_captures[stream].first;
  g_captures.erase(stream);
  return 0;
}

EXPORT int cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, void** graph, void*, size_t*) {
  auto found = g_captures.find(stream);
  *status = found != g_captures.end();
  if (found == g_captures.end()) return 0;
  *graph = found->second.first;
  *id = found->second.second;
  return 0;
}

EXPORT int cudaGraphInstantiate(void** exec, void* graph, unsigned long long) {
  *exec = make(static_cast<Thing*>(graph)->id | ++g_exec << 16);
  return 0;
}

EXPORT int cudaGraphLaunch(void* exec, void* stream) {
  const uint32_t id = static_cast<Thing*>(exec)->id;
  g_launched(id & 0xffff, id >> 16, stream);
  return 0;
}

EXPORT int cudaGraphDestroy(void* graph) { return destroy(graph); }
EXPORT int cudaGraphExecDestroy(void* exec) { return destroy(exec); }
