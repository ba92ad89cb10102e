// The part of the stand-in for libcupti that tells a subscriber of the nodes of CUDA graphs; and the driver's side,
// which makes graphs, their executable copies and what those replay. Tests call it from C++ and by ctypes.
//   FAKE_CUPTI_SUBSCRIBED  somebody else has subscribed
#include <cstdlib>
#include <mutex>
#include <set>
#include <vector>

#include "cupti_records.hpp"
#include "driver.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace tracesmith::fake;

// As cupti_callbacks.h has them; the probe's own declarations are not used, so that a mistake in them shows.
using Callback = void (*)(void* user, int domain, uint32_t callback, const void* data);
struct ResourceData {
  void* context;
  union {
    void* stream;
  } handle;
  void* descriptor;
};
struct GraphData {
  void *graph, *original_graph, *node, *original_node;
  int node_type;
  void *dependency, *exec;
};
constexpr int kResources = 3;
constexpr uint32_t kCreated = 13, kCloned = 20;

struct Node {
  uint64_t id;
};
struct Graph {
  uint32_t id;
  std::vector<Node*> nodes;
};

std::mutex g_nodes_mutex;  // guards what follows
Callback g_callback;
void* g_user;
std::set<uint32_t>& g_callbacks = *new std::set<uint32_t>;
uint32_t g_graphs, g_subscriptions;
uint32_t g_correlation = 1u << 20;

Graph* makeGraph() {
  std::lock_guard lock(g_nodes_mutex);
  return new Graph{++g_graphs, {}};
}

/// Calls without the lock, as CUPTI's callbacks call CUPTI.
void tell(uint32_t callback, GraphData data) {
  Callback subscriber;
  void* user;
  {
    std::lock_guard lock(g_nodes_mutex);
    subscriber = g_callbacks.contains(callback) ? g_callback : nullptr;
    user = g_user;
  }
  ResourceData resource{nullptr, {}, &data};
  if (subscriber) subscriber(user, kResources, callback, &resource);
}

Node* addNode(Graph& g, Graph* from, Node* original) {
  Node* node;
  {
    std::lock_guard lock(g_nodes_mutex);
    node = g.nodes.emplace_back(new Node{static_cast<uint64_t>(g.id) << 32 | (g.nodes.size() + 1)});
  }
  tell(kCreated, {&g, nullptr, node, nullptr, 0, nullptr, nullptr});  // also of copies
  if (original) tell(kCloned, {&g, from, node, original, 0, nullptr, nullptr});
  return node;
}

}  // namespace

EXPORT int cuptiSubscribe(void** subscriber, Callback callback, void* user) {
  std::lock_guard lock(g_nodes_mutex);
  if (g_callback || std::getenv("FAKE_CUPTI_SUBSCRIBED")) return kMultipleSubscribers;
  g_callback = callback;
  g_user = user;
  *subscriber = &g_callback;
  ++g_subscriptions;
  return kOk;
}

EXPORT int cuptiUnsubscribe(void* subscriber) {
  std::lock_guard lock(g_nodes_mutex);
  if (subscriber != &g_callback || !g_callback) return kInvalid;
  g_callback = nullptr;
  g_callbacks.clear();
  return kOk;
}

EXPORT int cuptiEnableCallback(uint32_t enable, void* subscriber, int domain, uint32_t callback) {
  std::lock_guard lock(g_nodes_mutex);
  if (subscriber != &g_callback || domain != kResources) return kInvalid;
  if (enable)
    g_callbacks.insert(callback);
  else
    g_callbacks.erase(callback);
  return kOk;
}

EXPORT int cuptiGetGraphNodeId(void* node, uint64_t* id) {
  if (!node) return kInvalid;
  *id = static_cast<Node*>(node)->id;
  return kOk;
}

EXPORT int cuptiGetGraphId(void* graph, uint32_t* id) {
  if (!graph) return kInvalid;
  *id = static_cast<Graph*>(graph)->id;
  return kOk;
}

// ---- the driver's side

EXPORT void* fakeGraph() { return makeGraph(); }
EXPORT void fakeGraphNode(void* graph) { addNode(*static_cast<Graph*>(graph), nullptr, nullptr); }
/// Its nodes are copied, and have ids of their own.
EXPORT void* fakeInstantiate(void* graph) {
  auto* from = static_cast<Graph*>(graph);
  Graph* exec = makeGraph();
  for (Node* n : from->nodes) addNode(*exec, from, n);
  return exec;
}
/// A launch: the n-th node's kernel takes n µs.
EXPORT void fakeReplay(void* exec) {
  auto* g = static_cast<Graph*>(exec);
  const Driver* driver = fakeCuptiDriver();
  Work w;
  w.end = driver->now();
  w.start = w.end - 100;
  w.correlation = ++g_correlation;
  w.cbid = 311;
  w.thread = 1;
  driver->runtime(w);
  uint64_t length = 0;
  for (size_t i = 0; i < g->nodes.size(); ++i) length += 1000 * (i + 1);
  while (driver->now() < w.end + length) {
  }
  w.thread = 0;
  w.name = "replayed";
  w.graph = g->id;
  for (size_t i = 0; i < g->nodes.size(); ++i) {
    w.start = w.end;
    w.end = w.start + 1000 * (i + 1);
    w.graph_node = g->nodes[i]->id;
    driver->kernel(w);
  }
}
EXPORT uint32_t fakeSubscriptions() {
  std::lock_guard lock(g_nodes_mutex);
  return g_callback ? 1000 : g_subscriptions;
}
