#include "capture/probe/graphs.hpp"

#include <dlfcn.h>
#include <pthread.h>

namespace tracesmith::probe {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kMostLife = (1u << 21) - 1;  // an id has 38 bits
constexpr uint32_t kOperations = 1u << 15, kLists = 2048, kExecs = 1u << 13;

/// What NCCL tells of an operation after it was called.
struct alignas(8) Details {
  uint16_t peer = UINT16_MAX;
  uint16_t channels = 0;
  uint8_t algo = 0, proto = 0;
  bool told = false;
};

struct Captured {
  ring::OperationRecord record;  // but for the details
  void* comm = nullptr;
  bool send = false;
  std::atomic<Details> details;
  std::atomic<uint32_t> kernel;   // of its graph; kNone: copies do its work
  std::atomic<int> late;          // replays that NCCL has yet to tell the peer of
  std::atomic<uint32_t> next;     // of its list
  std::atomic<uint32_t> list;     // and one more; 0: the place is free
  std::atomic<uint32_t> life{0};  // tells it from those that had the place before
};

/// The operations of a graph, and of all that were made from it.
struct List {
  uint32_t users = 0;  // graphs and executable graphs; 0: it is free
  uint64_t capture = 0;
  std::atomic<uint32_t> first{0};
  uint32_t last = 0, open = 0;  // `open`: from there on some may have no kernel yet
  std::atomic<uint32_t> kernels{0};
  bool instantiated = false;
  std::atomic<bool> launched{false};
};

struct Graph {
  void* graph = nullptr;
  uint32_t list = 0;
};

/// An executable graph. Launches look it up without a lock: it does not go while it is being launched.
struct Exec {
  std::atomic<void*> exec{nullptr};  // kGone: was one, look further
  std::atomic<uint32_t> list{0};
  std::atomic<uint32_t> id{0};
};
void* const kGone = reinterpret_cast<void*>(1);

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;  // guards what is not atomic below, and all changes
Captured g_operations[kOperations];
List g_lists[kLists];
Graph g_graphs[kLists];
Exec g_execs[kExecs];
uint32_t g_next_operation = 0, g_exec_count = 0, g_next_exec = 0;
std::atomic<bool> g_any{false};

struct Lock {
  Lock() { pthread_mutex_lock(&g_mutex); }
  ~Lock() { pthread_mutex_unlock(&g_mutex); }
};

/// The graph that a stream is captured into; nullptr: none, or it is not known.
void* graphOf(void* stream, uint64_t& capture) {
  using Ask2 = int (*)(void*, int*, uint64_t*, void**, void*, size_t*);
  using Ask3 = int (*)(void*, int*, uint64_t*, void**, void*, void*, size_t*);
  static void *ask2 = nullptr, *ask3 = nullptr;
  if (static bool looked = false; !looked) {
    looked = true;
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    auto find = [&](const char* name) {
      void* found = driver ? dlsym(driver, name) : nullptr;
      return found ? found : dlsym(RTLD_DEFAULT, name);
    };
    ask2 = find("cuStreamGetCaptureInfo_v2");
    ask3 = find("cuStreamGetCaptureInfo_v3");
  }
  constexpr int kActive = 1;
  int status = 0;
  void* graph = nullptr;
  int result = -1;
  if (ask2)
    result = reinterpret_cast<Ask2>(ask2)(stream, &status, &capture, &graph, nullptr, nullptr);
  else if (ask3)
    result = reinterpret_cast<Ask3>(ask3)(stream, &status, &capture, &graph, nullptr, nullptr, nullptr);
  return result == 0 && status == kActive ? graph : nullptr;
}

uint32_t newList() {
  for (uint32_t i = 0; i < kLists; ++i)
    if (List& l = g_lists[i]; l.users == 0) {
      l.capture = 0;
      l.first = kNone;
      l.last = l.open = kNone;
      l.kernels = 0;
      l.instantiated = false;
      l.launched = false;
      l.users = 1;
      return i;
    }
  return kNone;
}

void release(uint32_t list) {
  if (list == kNone || --g_lists[list].users > 0) return;
  for (uint32_t i = g_lists[list].first; i != kNone;) {
    Captured& o = g_operations[i];
    i = o.next;
    o.life = (o.life + 1) & kMostLife;
    o.list = 0;
  }
  g_lists[list].first = kNone;
}

Graph* findGraph(void* graph) {
  for (Graph& g : g_graphs)
    if (g.graph == graph) return &g;
  return nullptr;
}

/// The list of a graph that is being captured, made if need be. A graph that was thrown away unseen may have left its
/// handle to this one.
uint32_t listOf(void* graph, uint64_t capture) {
  Graph* g = findGraph(graph);
  if (g && g_lists[g->list].capture == capture) return g->list;
  if (g) release(g->list);
  if (!g) g = findGraph(nullptr);
  const uint32_t list = g ? newList() : kNone;
  if (g) *g = {list == kNone ? nullptr : graph, list};
  if (list != kNone) g_lists[list].capture = capture;
  return list;
}

uint32_t newOperation() {
  for (uint32_t n = 0; n < kOperations; ++n)
    if (const uint32_t i = (g_next_operation + n) % kOperations; g_operations[i].list == 0) {
      g_next_operation = i + 1;
      return i;
    }
  return kNone;
}

void append(List& list, uint32_t index) {
  g_operations[index].next = kNone;
  if (list.last == kNone)
    list.first = index;
  else
    g_operations[list.last].next = index;
  list.last = index;
  if (list.open == kNone) list.open = index;
}

uint32_t slotOf(void* exec) {
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(exec) * 0x9e3779b97f4a7c15ull) >> 40) % kExecs;
}

Exec* findExec(void* exec) {
  for (uint32_t n = 0, i = slotOf(exec); n < kExecs; ++n, i = (i + 1) % kExecs) {
    void* there = g_execs[i].exec.load(std::memory_order_acquire);
    if (there == exec) return &g_execs[i];
    if (there == nullptr) return nullptr;
  }
  return nullptr;
}

void forget(Exec* e) {
  if (!e) return;
  e->exec.store(kGone, std::memory_order_release);
  --g_exec_count;
  release(e->list);
}

/// What was captured into another graph runs with this one, too.
void copyInto(void* to, uint32_t source) {
  Graph* target = findGraph(to);
  if (!target) {
    if (Graph* free = findGraph(nullptr)) {
      *free = {to, source};
      ++g_lists[source].users;
    }
    return;
  }
  const uint32_t both = newList();
  if (both == kNone) return;
  List& list = g_lists[both];
  list.capture = g_lists[target->list].capture;
  for (uint32_t part : {target->list, source}) {
    const uint32_t before = list.kernels;
    for (uint32_t i = g_lists[part].first; i != kNone; i = g_operations[i].next) {
      const uint32_t index = newOperation();
      if (index == kNone) break;
      Captured &o = g_operations[index], &original = g_operations[i];
      o.record = original.record;
      o.comm = original.comm;
      o.send = original.send;
      o.details = original.details.load();
      o.kernel = original.kernel == kNone ? kNone : original.kernel + before;
      o.late = 0;
      o.list = both + 1;
      append(list, index);
    }
    list.kernels = before + g_lists[part].kernels;
  }
  release(target->list);
  target->list = both;
}

CapturedId idOf(uint32_t index) { return static_cast<uint64_t>(g_operations[index].life) << 16 | (index + 1); }

/// nullptr: it is gone.
Captured* find(CapturedId id) {
  const auto index = static_cast<uint32_t>(id & 0xffff);
  if (index == 0 || index > kOperations) return nullptr;
  Captured& o = g_operations[index - 1];
  return o.list != 0 && o.life == id >> 16 ? &o : nullptr;
}

}  // namespace

CapturedId captureOperation(void* stream, void* comm, const ring::OperationRecord& operation, bool send) {
  uint64_t capture = 0;
  void* graph = graphOf(stream, capture);
  if (!graph) return 0;
  Lock lock;
  const uint32_t list = listOf(graph, capture);
  const uint32_t index = list == kNone ? kNone : newOperation();
  if (index == kNone) return 0;
  Captured& o = g_operations[index];
  o.record = operation;
  o.comm = comm;
  o.send = send;
  o.details = Details{};
  o.kernel = kNone;
  o.late = 0;
  o.list = list + 1;
  append(g_lists[list], index);
  g_any = true;
  return idOf(index);
}

void captureKernel(void* stream, void* comm) {
  uint64_t capture = 0;
  void* graph = graphOf(stream, capture);
  if (!graph) return;
  Lock lock;
  const uint32_t index = listOf(graph, capture);
  if (index == kNone) return;
  List& list = g_lists[index];
  const uint32_t kernel = list.kernels++;
  uint32_t open = kNone;
  for (uint32_t i = list.open; i != kNone; i = g_operations[i].next) {
    Captured& o = g_operations[i];
    if (o.kernel == kNone && o.comm == comm) o.kernel = kernel;
    if (o.kernel == kNone && open == kNone) open = i;
  }
  list.open = open;
}

Told tellCaptured(CapturedId id, const ring::OperationRecord& told) {
  Lock lock;
  Captured* o = find(id);
  if (!o) return Told::unknown;
  List& list = g_lists[o->list - 1];
  if (!list.instantiated && list.kernels > 0) o->kernel = list.kernels - 1;
  o->details = Details{ring::words::rank16(told.peer), told.channels, told.algo, told.proto, true};
  if (!list.launched) return Told::unknown;
  if (o->late == 0) return Told::launched;
  --o->late;
  return Told::late;
}

void graphInstantiated(void* exec, void* graph) {
  if (!g_any || !exec) return;
  Lock lock;
  forget(findExec(exec));  // it was destroyed unseen, or is updated
  const Graph* g = findGraph(graph);
  if (!g || !graph || g_exec_count + 1 > kExecs / 2) return;
  g_lists[g->list].instantiated = true;
  ++g_lists[g->list].users;
  for (uint32_t i = slotOf(exec);; i = (i + 1) % kExecs) {
    Exec& e = g_execs[i];
    if (void* there = e.exec; there != nullptr && there != kGone) continue;
    e.list = g->list;
    e.id = ++g_next_exec;
    e.exec.store(exec, std::memory_order_release);
    ++g_exec_count;
    return;
  }
}

void graphCopied(void* to, void* from) {
  if (!g_any || !to || !from) return;
  Lock lock;
  if (const Graph* source = findGraph(from)) copyInto(to, source->list);
}

void graphDestroyed(void* graph) {
  if (!g_any || !graph) return;
  Lock lock;
  Graph* g = findGraph(graph);
  if (!g) return;
  release(g->list);
  *g = {};
}

void execDestroyed(void* exec) {
  if (!g_any || !exec) return;
  Lock lock;
  forget(findExec(exec));
}

bool watchesGraphs() { return g_any.load(std::memory_order_relaxed); }

void graphLaunched(void* exec, void* stream) {
  RingWriter* r = ring::g_ring.load(std::memory_order_acquire);
  if (!r) return;
  const bool records = recording(*r);
  const Exec* e = findExec(exec);
  List* list = e ? &g_lists[e->list] : nullptr;
  uint64_t capture = 0;
  if (void* into = list ? graphOf(stream, capture) : nullptr) {  // nothing is launched: it becomes part of another
    Lock lock;
    listOf(into, capture);
    return copyInto(into, e->list);
  }
  const uint64_t start = ring::nowNs();
  ring::LaunchRecord launch{.start = start, .end = start, .graph = true};
  if (records) launch.stream = streamId(stream);
  if (list) {
    launch.exec = e->id;
    launch.parts = list->kernels;
    list->launched.store(true, std::memory_order_relaxed);
  }
  bool told = false;
  for (uint32_t i = list ? list->first.load() : kNone; i != kNone; i = g_operations[i].next) {
    Captured& o = g_operations[i];
    ring::OperationRecord record = o.record;
    const Details details = o.details;
    if (record.pair && !details.told) {
      ++o.late;
      continue;
    }
    record.start = start;
    record.peer = ring::words::rankOf(details.peer);
    record.channels = details.channels;
    record.algo = details.algo;
    record.proto = details.proto;
    record.sequence = numberReplay(o.comm, record, o.send);
    if (!records) continue;
    const uint32_t kernel = o.kernel;
    if (!told || launch.part != kernel) {
      launch.part = kernel;
      launch.copies = kernel == kNone;
      r->write(encode(launch));
      told = true;
    }
    r->write(encode(record));
  }
  if (records && !told) r->write(encode(launch));
}

}  // namespace tracesmith::probe
