#include "capture/probe/nccl_events.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace tracesmith::probe {
namespace {

constexpr uint32_t kPools = 16, kPairs = 512;  // contexts; launches that have not ended
constexpr uint64_t kAnchorNs = 500'000'000;    // how long an anchor serves: clocks part by less than its error
constexpr uint64_t kAnchorTryNs = 2'000'000;   // a GPU that does not answer for so long is asked again later
constexpr double kResolutionNs = 500;          // of events, by CUDA's manual
constexpr int kTries = 4, kBlocked = 32;
constexpr int kRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kNonBlocking = 1;

/// Of CUDA's driver, found in the process: CUDA is there when NCCL launches.
struct Driver {
  int (*EventCreate)(void**, unsigned);
  int (*EventRecord)(void*, void*);
  int (*EventQuery)(void*);
  int (*EventElapsedTime)(float*, void*, void*);
  int (*StreamCreate)(void**, unsigned);
  int (*StreamIsCapturing)(void*, int*);
  int (*ThreadExchangeStreamCaptureMode)(int*);
  int (*CtxGetCurrent)(void**);
  int (*CtxPushCurrent)(void*);
  int (*CtxPopCurrent)(void**);
};
Driver g_driver;

enum Wanted : int { kNotAsked, kYes, kNo };
std::atomic<int> g_wanted{kNotAsked};
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the making of pools
pthread_mutex_t g_poll_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<uint32_t> g_number{0};
std::atomic<uint64_t> g_spent_ns{0};

struct Pair {
  enum State : int { kFree, kOpen, kPending };
  std::atomic<int> state;
  void *start, *end, *stream;
  uint32_t number;
};

/// The events of a context.
struct Pool {
  std::atomic<void*> context;
  std::atomic<bool> ready, dead;
  std::atomic<uint32_t> next;
  Pair pairs[kPairs];
  // For those who poll:
  void *stream, *anchor;
  uint64_t anchor_ns, bound_ns;  // when the anchor came, within so much
};
Pool g_pools[kPools];

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

bool findDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  Driver& d = g_driver;
  return library && find(library, "cuEventCreate", d.EventCreate) && find(library, "cuEventRecord", d.EventRecord) &&
         find(library, "cuEventQuery", d.EventQuery) && find(library, "cuEventElapsedTime", d.EventElapsedTime) &&
         find(library, "cuStreamCreate", d.StreamCreate) && find(library, "cuStreamIsCapturing", d.StreamIsCapturing) &&
         find(library, "cuThreadExchangeStreamCaptureMode", d.ThreadExchangeStreamCaptureMode) &&
         find(library, "cuCtxGetCurrent", d.CtxGetCurrent) && find(library, "cuCtxPushCurrent_v2", d.CtxPushCurrent) &&
         find(library, "cuCtxPopCurrent_v2", d.CtxPopCurrent);
}

bool wanted(RingWriter& r) {
  int state = g_wanted.load(std::memory_order_acquire);
  if (state != kNotAsked) return state == kYes;
  pthread_mutex_lock(&g_mutex);
  state = g_wanted.load();
  if (state == kNotAsked) {
    const bool asked = eventsAsked();
    state = asked && findDriver() ? kYes : kNo;
    if (asked && state == kNo) note(r, "the CUDA driver lacks functions: NCCL's operations are not timed by events");
    g_wanted.store(state, std::memory_order_release);
  }
  pthread_mutex_unlock(&g_mutex);
  return state == kYes;
}

/// While it lives, a capture in another thread does not mind what this one calls.
class Relaxed {
 public:
  Relaxed() { g_driver.ThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { g_driver.ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  int mode_ = kRelaxed;
};

bool makePool(Pool& pool) {
  const Relaxed relaxed;
  for (Pair& p : pool.pairs)
    if (g_driver.EventCreate(&p.start, 0) != 0 || g_driver.EventCreate(&p.end, 0) != 0) return false;
  return true;
}

/// nullptr: there is none, or another thread makes it.
Pool* poolOf(void* context) {
  for (Pool& pool : g_pools) {
    void* its = pool.context.load(std::memory_order_acquire);
    if (its == context) return pool.ready.load(std::memory_order_acquire) && !pool.dead.load() ? &pool : nullptr;
    if (its) continue;
    if (!pool.context.compare_exchange_strong(its, context)) {
      if (its == context) return nullptr;
      continue;
    }
    if (makePool(pool))
      pool.ready.store(true, std::memory_order_release);
    else
      pool.dead = true;
    return pool.ready ? &pool : nullptr;
  }
  return nullptr;
}

/// Launches end about in the order in which they came: the next place is nearly always free.
int takePair(Pool& pool) {
  const uint32_t first = pool.next.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t n = 0; n < kPairs; ++n) {
    const uint32_t i = (first + n) % kPairs;
    int free = Pair::kFree;
    if (pool.pairs[i].state.load(std::memory_order_relaxed) == Pair::kFree &&
        pool.pairs[i].state.compare_exchange_strong(free, Pair::kOpen, std::memory_order_acquire))
      return static_cast<int>(i);
  }
  return -1;
}

Pair& pairOf(uint32_t pair) { return g_pools[(pair - 1) / kPairs].pairs[(pair - 1) % kPairs]; }

/// Relates the GPU's time to our clock: the best of a few tries.
bool setAnchor(Pool& pool) {
  if (!pool.stream &&
      (g_driver.StreamCreate(&pool.stream, kNonBlocking) != 0 || g_driver.EventCreate(&pool.anchor, 0) != 0))
    return false;
  pool.anchor_ns = 0;  // none, until it has come
  uint64_t best = 0;
  for (int i = 0; i < kTries; ++i) {
    // The last one is what times are counted from.
    const uint64_t before = ring::nowNs();
    if (g_driver.EventRecord(pool.anchor, pool.stream) != 0) return false;
    int result = 0;
    uint64_t after = 0;
    do {
      result = g_driver.EventQuery(pool.anchor);
      after = ring::nowNs();
    } while (result != 0 && after - before < kAnchorTryNs);
    if (result != 0) {
      pool.anchor_ns = 0;
      return false;
    }
    pool.anchor_ns = before + (after - before) / 2;
    pool.bound_ns = (after - before) / 2;
    if (best != 0 && after - before <= best * 3 / 2) break;  // no worse than what was possible before
    if (best == 0 || after - before < best) best = after - before;
  }
  return true;
}

/// Writes the times of a launch that is over. False: not yet.
bool finish(RingWriter& r, Pool& pool, Pair& p) {
  const int result = g_driver.EventQuery(p.end);
  constexpr int kNotReady = 600;
  if (result == kNotReady) return false;
  float since = 0, took = 0;
  if (result != 0) {
    pool.dead = true;  // its context is gone
  } else if (g_driver.EventElapsedTime(&since, pool.anchor, p.start) == 0 &&
             g_driver.EventElapsedTime(&took, p.start, p.end) == 0 && took >= 0) {
    const double ns = static_cast<double>(since) * 1e6;
    const uint64_t start = pool.anchor_ns + static_cast<uint64_t>(static_cast<int64_t>(ns));
    r.write(encode(ring::LaunchTimeRecord{
        .number = p.number,
        .start = start,
        .end = start + static_cast<uint64_t>(static_cast<double>(took) * 1e6),
        // A float has 24 bits.
        .bound = pool.bound_ns + static_cast<uint64_t>(kResolutionNs + (ns < 0 ? -ns : ns) / (1 << 24))}));
  }
  p.state.store(Pair::kFree, std::memory_order_release);
  return true;
}

void poll(RingWriter& r, Pool& pool) {
  bool pending = false;
  for (const Pair& p : pool.pairs) pending |= p.state.load(std::memory_order_relaxed) == Pair::kPending;
  if (!pending || g_driver.CtxPushCurrent(pool.context) != 0) return;
  {
    const Relaxed relaxed;
    const bool anchored = ring::nowNs() - pool.anchor_ns < kAnchorNs || setAnchor(pool);
    void* blocked[kBlocked];
    int streams = 0;
    for (uint32_t n = 0, first = pool.next; n < kPairs && anchored && !pool.dead; ++n) {
      Pair& p = pool.pairs[(first + n) % kPairs];
      if (p.state.load(std::memory_order_acquire) != Pair::kPending) continue;
      bool waits = false;  // what was launched before on its stream is not over
      for (int s = 0; s < streams; ++s) waits |= blocked[s] == p.stream;
      if (!waits && !finish(r, pool, p) && streams < kBlocked) blocked[streams++] = p.stream;
    }
  }
  void* popped = nullptr;
  g_driver.CtxPopCurrent(&popped);
}

}  // namespace

bool eventsAsked() {
  const char* times = getenv("TRACESMITH_NCCL_TIMES");
  return times && strcmp(times, "events") == 0;
}

uint32_t beginEvents(RingWriter& r, void* stream, bool captured) {
  if (captured || mode(r) != Mode::watch || r.header().gpu_off_ns.load(std::memory_order_relaxed) == 0 || !wanted(r))
    return 0;
  const uint64_t before = ring::nowNs();
  void* context = nullptr;
  int capturing = 0;
  if (g_driver.StreamIsCapturing(stream, &capturing) != 0 || capturing != 0 || g_driver.CtxGetCurrent(&context) != 0 ||
      !context)
    return 0;
  Pool* pool = poolOf(context);
  if (!pool) return 0;
  const int i = takePair(*pool);
  if (i < 0) {
    r.lose(ring::kNoEvent);
    return 0;
  }
  if (g_driver.EventRecord(pool->pairs[i].start, stream) != 0) {
    pool->pairs[i].state = Pair::kFree;
    return 0;
  }
  g_spent_ns.fetch_add(ring::nowNs() - before, std::memory_order_relaxed);
  return static_cast<uint32_t>(pool - g_pools) * kPairs + static_cast<uint32_t>(i) + 1;
}

uint32_t endEvents(uint32_t pair, void* stream) {
  if (pair == 0) return 0;
  const uint64_t before = ring::nowNs();
  Pair& p = pairOf(pair);
  if (g_driver.EventRecord(p.end, stream) != 0) {
    p.state = Pair::kFree;
    return 0;
  }
  uint32_t number = g_number.fetch_add(1, std::memory_order_relaxed) + 1;
  p.stream = stream;
  p.number = number;
  p.state.store(Pair::kPending, std::memory_order_release);
  g_spent_ns.fetch_add(ring::nowNs() - before, std::memory_order_relaxed);
  return number;
}

void pollEvents(RingWriter& r, bool last) {
  if (g_number.load() == 0) return;
  timespec until;  // our thread may be in the middle of it: it is not worth the job's exit
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += last ? 1 : 0;
  if (pthread_mutex_timedlock(&g_poll_mutex, &until) != 0) return;
  for (Pool& pool : g_pools)
    if (pool.ready.load(std::memory_order_acquire) && !pool.dead.load()) poll(r, pool);
  pthread_mutex_unlock(&g_poll_mutex);
}

uint64_t eventsNs() { return g_spent_ns.load(std::memory_order_relaxed); }

void stopEvents() { g_wanted = kNo; }

void forgetEvents() {
  for (Pool& pool : g_pools) {
    if (!pool.context.load()) break;
    pool.context = nullptr;
    pool.ready = pool.dead = false;
    pool.stream = pool.anchor = nullptr;
    pool.anchor_ns = 0;
    for (Pair& p : pool.pairs) p.state = Pair::kFree;
  }
  g_number = 0;
  g_spent_ns = 0;
  pthread_mutex_init(&g_mutex, nullptr);
  pthread_mutex_init(&g_poll_mutex, nullptr);
}

}  // namespace tracesmith::probe
