#include "capture/probe/graph_nodes.hpp"

#include <pthread.h>

#include "model/ring/program_records.hpp"

namespace tracesmith::probe {
namespace {

using cupti::Functions;

/// What a node was captured from; texts of the ring.
struct Origin {
  uint32_t modules = 0, op = 0, shapes = 0;
  bool backward = false;
  bool known() const { return modules || op; }
};

/// Of each thread what it captures, by lane, as its ranges (see probe.cpp).
struct ThreadOrigin {
  int64_t thread = 0;
  Origin origin;
};
ThreadOrigin g_threads[ring::kMaxLanes];

pthread_mutex_t g_capture_mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the next two
int g_captures = 0;                                           // that have begun and not ended
cupti::Subscriber g_subscriber = nullptr;
std::atomic<const Functions*> g_functions{nullptr};  // of the CUPTI that was subscribed to

/// Nodes by id, for those that will be copied. Emptied when a capture begins and it is half full: what was captured
/// before has been instantiated by then, but for graphs that the program keeps.
struct Node {
  uint64_t id = 0;
  Origin origin;
};
constexpr uint32_t kNodes = 1u << 16;
pthread_mutex_t g_nodes_mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the next two
Node g_nodes[kNodes];
uint32_t g_node_count = 0;

/// The place of a node: its own, or a free one. With g_nodes_mutex.
Node& placeOf(uint64_t id) {
  auto at = static_cast<uint32_t>((id * 0x9E3779B97F4A7C15ull) >> 48);
  while (g_nodes[at].id != 0 && g_nodes[at].id != id) at = (at + 1) % kNodes;
  return g_nodes[at];
}

/// False: there are too many.
bool keep(uint64_t id, const Origin& origin) {
  pthread_mutex_lock(&g_nodes_mutex);
  Node& place = placeOf(id);
  const bool room = place.id != 0 || g_node_count < kNodes / 4 * 3;
  if (room) {
    g_node_count += place.id == 0;
    place = {id, origin};
  }
  pthread_mutex_unlock(&g_nodes_mutex);
  return room;
}

Origin originOf(uint64_t id) {
  pthread_mutex_lock(&g_nodes_mutex);
  const Node& place = placeOf(id);
  const Origin origin = place.id == id ? place.origin : Origin();
  pthread_mutex_unlock(&g_nodes_mutex);
  return origin;
}

Origin* originOfThread(RingWriter& r) {
  const uint32_t lane = r.lane();
  if (lane == 0) return nullptr;  // too many threads
  ThreadOrigin& t = g_threads[lane];
  if (t.thread != ring::threadId()) t = {ring::threadId(), {}};  // the lane belonged to another thread
  return &t.origin;
}

/// CUPTI calls it on the thread that makes a node.
void nodeMade(void*, uint32_t domain, uint32_t callback, const void* data) {
  RingWriter* r = ringOrNull();
  const Functions* f = g_functions.load(std::memory_order_acquire);
  if (domain != cupti::kResources || !data || !r || !f || !recording(*r)) return;
  const auto* made = static_cast<const cupti::GraphData*>(static_cast<const cupti::ResourceData*>(data)->descriptor);
  if (!made || !made->node) return;
  uint64_t id = 0, original = 0;
  if (f->GetGraphNodeId(made->node, &id) != 0 || id == 0) return;
  Origin origin;
  if (callback == cupti::kGraphNodeCreated) {
    if (const Origin* own = originOfThread(*r)) origin = *own;
  } else if (callback == cupti::kGraphNodeCloned && made->original_node &&
             f->GetGraphNodeId(made->original_node, &original) == 0) {
    origin = originOf(original);
  }
  if (!origin.known()) return;
  if (!keep(id, origin)) return r->lose(ring::kNoNodeRoom);
  uint32_t graph = 0;
  if (!made->graph || !f->GetGraphId || f->GetGraphId(made->graph, &graph) != 0) graph = 0;
  r->write(encode(ring::GraphNodeRecord{.node = id,
                                        .graph = graph,
                                        .modules = origin.modules,
                                        .backward = origin.backward,
                                        .op = origin.op,
                                        .shapes = origin.shapes,
                                        .start = ring::nowNs(),
                                        .thread = static_cast<uint32_t>(ring::threadId())}));
}

/// With g_capture_mutex.
bool subscribe() {
  const Functions* f = usableCupti();
  if (!f || !f->Subscribe || !f->Unsubscribe || !f->EnableCallback || !f->GetGraphNodeId) return false;
  if (f->Subscribe(&g_subscriber, nodeMade, nullptr) != 0) {
    g_subscriber = nullptr;
    return false;
  }
  g_functions = f;
  if (f->EnableCallback(1, g_subscriber, cupti::kResources, cupti::kGraphNodeCreated) == 0 &&
      f->EnableCallback(1, g_subscriber, cupti::kResources, cupti::kGraphNodeCloned) == 0)
    return true;
  f->Unsubscribe(g_subscriber);
  g_subscriber = nullptr;
  return false;
}

/// With g_capture_mutex.
void unsubscribe() {
  if (g_subscriber) g_functions.load()->Unsubscribe(g_subscriber);
  g_subscriber = nullptr;
}

void emptyIfHalfFull() {
  pthread_mutex_lock(&g_nodes_mutex);
  if (g_node_count > kNodes / 2) {
    for (Node& n : g_nodes) n = {};
    g_node_count = 0;
  }
  pthread_mutex_unlock(&g_nodes_mutex);
}

}  // namespace

bool captureBegins(RingWriter& r) {
  if (!recording(r)) return false;
  pthread_mutex_lock(&g_capture_mutex);
  if (g_captures == 0) emptyIfHalfFull();
  const bool on = g_subscriber || subscribe();
  if (on) ++g_captures;
  pthread_mutex_unlock(&g_capture_mutex);
  return on;
}

void captureEnded() {
  pthread_mutex_lock(&g_capture_mutex);
  if (g_captures > 0 && --g_captures == 0) unsubscribe();
  pthread_mutex_unlock(&g_capture_mutex);
}

void nameNodes(RingWriter& r, const char* modules, bool backward, const char* op, const char* shapes) {
  auto text = [&](const char* s) { return s ? r.intern(s) : 0; };
  if (Origin* own = originOfThread(r)) *own = {text(modules), text(op), text(shapes), backward};
}

void giveUpCaptures() {
  pthread_mutex_lock(&g_capture_mutex);
  unsubscribe();
  pthread_mutex_unlock(&g_capture_mutex);
}

void forgetCaptures() {
  pthread_mutex_init(&g_capture_mutex, nullptr);
  pthread_mutex_init(&g_nodes_mutex, nullptr);
  g_captures = 0;
  g_subscriber = nullptr;
}

}  // namespace tracesmith::probe
