// CUPTI activity records into the ring. CUPTI calls two of our functions on the job's threads: one hands out a buffer,
// one takes it back; everything else happens on a thread of our own.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "capture/probe/cupti_abi.hpp"
#include "capture/probe/cupti_buffers.hpp"
#include "capture/probe/cupti_library.hpp"
#include "capture/probe/cupti_records.hpp"
#include "capture/probe/graph_nodes.hpp"
#include "capture/probe/nccl_events.hpp"
#include "capture/probe/probe.hpp"
#include "capture/probe/watch.hpp"
#include "capture/probe/watch_cost.hpp"

namespace tracesmith::probe {
namespace {

using namespace cupti;

constexpr long kPeriodMs = 100;
constexpr uint64_t kFetchAfterNs = 2'000'000'000;  // how long kernels launched while recording may take to end

CuptiSource g_source;
Functions& g_cupti = g_source.functions;
std::atomic<bool> g_running{false};
bool g_clock_set = false;                           // CUPTI uses ours
std::atomic<bool> g_aside{false};                   // another profiler has the activity API
std::atomic<uint64_t> g_return_ns{0};               // when to take it back; 0: not while the other profiler is active
constexpr uint64_t kReturnAfterNs = 2'000'000'000;  // the other profiler may still fetch its last buffers
// Guards the next four, which our thread and the thread of a starting profiler use. Taken before g_drain_mutex.
pthread_mutex_t g_kinds_mutex = PTHREAD_MUTEX_INITIALIZER;
bool g_enabled = false;
uint64_t g_disabled_ns = 0;
Mode g_enabled_mode = Mode::light;
// Whether CUPTI may time graphs as a whole: it has to see each of them made. Turned on later, it crashes the job in the
// next launch of a graph that was there before (CUDA 13.0); then each of a graph's kernels is recorded instead.
bool g_graphs_whole = true;
pthread_mutex_t g_drain_mutex =
    PTHREAD_MUTEX_INITIALIZER;  // guards the GPU's lane, which our thread and the exit handler use
// Held while CUPTI hands over buffers: at exit, the buffers that our thread fetched must have arrived.
pthread_mutex_t g_flush_mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t timestamp() { return ring::nowNs(); }

void writeMark(RingWriter& r, const char* text) {
  r.write(encode(ring::RangeRecord{.mark = true, .name = {r.intern(text)}, .start = ring::nowNs()}));
}

// ---- what is enabled in which mode

template <size_t kCount>
void setCalls(Result (*set)(uint32_t, uint8_t), const CallRange (&ranges)[kCount], bool on) {
  for (const CallRange& r : ranges)
    for (uint32_t cbid = r.first; cbid <= r.last; ++cbid) set(cbid, on);
}

/// Only the calls that start work, and those in which the host waits. False where CUPTI cannot choose (before CUDA
/// 12.5).
bool setApis(bool on) {
  if (!g_cupti.ActivityEnableRuntimeApi || !g_cupti.ActivityEnableDriverApi ||
      g_cupti.ActivityEnableRuntimeApi(kLaunchRuntime[0].first, on) != 0)
    return false;
  setCalls(g_cupti.ActivityEnableRuntimeApi, kLaunchRuntime, on);
  setCalls(g_cupti.ActivityEnableRuntimeApi, kWaitRuntime, on);
  setCalls(g_cupti.ActivityEnableDriverApi, kLaunchDriver, on);
  setCalls(g_cupti.ActivityEnableDriverApi, kWaitDriver, on);
  return true;
}

/// Kernels are turned on last and off first: as close as possible to the moment that is noted.
void setKinds(Mode mode, bool on) {
  auto set = [&](uint32_t kind) { on ? g_cupti.ActivityEnable(kind) : g_cupti.ActivityDisable(kind); };
  if (!on) set(kConcurrentKernel);
  set(kMemcpy);
  set(kMemcpy2);
  set(kMemset);
  if (g_graphs_whole && !wantsGraphNodes()) set(kGraphTrace);
  if ((mode == Mode::standard || mode == Mode::watch) && !setApis(on)) set(kRuntime);
  if (mode == Mode::full) {
    set(kSynchronization);  // costs as much as all other kinds together; in other modes the calls show the waits
    set(kRuntime);
    set(kDriver);
    set(kOverhead);
  }
  if (on) set(kConcurrentKernel);
}

void tell(RingWriter& r, const ring::GpuOnRecord& record) {
  r.header().gpu_off_ns = record.off ? record.start : 0;
  pthread_mutex_lock(&g_drain_mutex);  // the exit handler may be writing to that lane
  r.writeGpu(encode(record));
  pthread_mutex_unlock(&g_drain_mutex);
}

void enable(RingWriter& r, Mode mode) {
  g_source.waits_are_calls = mode != Mode::full;
  setKinds(mode, true);
  const uint64_t first = ring::nowNs();
  g_enabled_mode = mode;
  g_enabled = true;
  windowChanged(r, true);
  tell(r, {.start = first});
}

void disable(RingWriter& r) {
  if (!g_enabled) return;
  const uint64_t last = ring::nowNs();
  setKinds(g_enabled_mode, false);
  g_graphs_whole = false;
  g_enabled = false;
  g_disabled_ns = ring::nowNs();
  windowChanged(r, false);
  tell(r, {.off = true, .start = last});
}

/// Follows the control word: recording on or off, another mode; and the windows of watch mode. With g_kinds_mutex.
void follow(RingWriter& r) {
  const bool want = recording(r) && !g_aside.load() && inWindow(r);
  if (g_enabled && (!want || mode(r) != g_enabled_mode)) disable(r);
  if (want && !g_enabled) enable(r, mode(r));
}

// ---- our thread

void drain(RingWriter& r) {
  pthread_mutex_lock(&g_drain_mutex);
  if (!g_cupti.ActivityRegisterTimestampCallback) g_source.to_raw_ns = -unixMinusRaw();
  for (Buffer *b = takeFullBuffers(), *next = nullptr; b; b = next) {
    next = b->next;
    void* record = nullptr;
    while (g_cupti.ActivityGetNextRecord(b->bytes(), b->valid, &record) == 0) writeRecord(r, g_source, record);
    freeBuffer(b);
  }
  size_t dropped = 0;
  if (!g_aside.load() && g_cupti.ActivityGetNumDroppedRecords &&
      g_cupti.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == 0 && dropped > 0)
    r.lose(ring::kCuptiDropped, dropped);
  pthread_mutex_unlock(&g_drain_mutex);
}

void flush(bool forced) { g_cupti.ActivityFlushAll(forced ? 1 : 0); }

/// Once per life of CUPTI, and before any context where that can be: each further registration spoils records.
void setClock() {
  if (g_clock_set || !g_cupti.ActivityRegisterTimestampCallback) return;
  g_clock_set = true;
  g_cupti.ActivityRegisterTimestampCallback(timestamp);
}

void comeBack(RingWriter& r) {
  g_return_ns = 0;
  if (!g_clock_set && g_cupti.SetThreadIdType) g_cupti.SetThreadIdType(1);
  g_cupti.ActivityRegisterCallbacks(requestBuffer, completeBuffer);
  setClock();    // if the other profiler was there before us, or has ended CUPTI
  flush(false);  // the other profiler gets its half-full buffer before our records can get into it
  g_aside = false;
  writeMark(r, "tracesmith: back");
}

void* loop(void*) {
  pthread_setname_np(pthread_self(), "tracesmith");
  startCost();
  const char* every = getenv("TRACESMITH_FLUSH_MS");
  const uint64_t flush_ns = static_cast<uint64_t>(every && atoi(every) > 0 ? atoi(every) : kPeriodMs) * 1'000'000;
  uint64_t flushed = 0;
  bool was_on = false;
  while (g_running.load()) {
    const uint32_t woken = wakeCount();
    RingWriter* r = ring::g_ring.load();
    if (!r) return nullptr;
    r->header().heartbeat_ns.store(ring::nowNs(), std::memory_order_relaxed);
    pthread_mutex_lock(&g_kinds_mutex);
    if (uint64_t at = g_return_ns.load(); g_aside.load() && at != 0 && ring::nowNs() > at) comeBack(*r);
    follow(*r);
    const bool on = g_enabled;
    const uint64_t now = ring::nowNs();
    const bool fetch = on || now - g_disabled_ns < kFetchAfterNs;  // after that, nothing more comes
    pthread_mutex_unlock(&g_kinds_mutex);
    // At once when it was turned off: what was recorded before is still in CUPTI.
    const bool ended = was_on && !on;
    was_on = on;
    if (fetch && !g_aside.load() && (ended || now - flushed + 1'000'000 >= flush_ns)) {
      pthread_mutex_lock(&g_flush_mutex);
      flush(false);
      pthread_mutex_unlock(&g_flush_mutex);
      flushed = now;
    }
    drain(*r);
    pollEvents(*r);
    windowFetched(*r);
    sleepUnlessWoken(woken, kPeriodMs * 1'000'000);
  }
  return nullptr;
}

}  // namespace

void stepAside(BufferCompleted other) {
  RingWriter* r = ring::g_ring.load();
  pthread_mutex_lock(&g_kinds_mutex);
  if (other) passOtherBuffersTo(other);
  g_return_ns = 0;
  if (!g_aside.exchange(true) && r && g_running) {  // not running: the other profiler was there before us
    // What was recorded so far is ours: turn it off and fetch it before the other profiler's buffers are in place.
    disable(*r);
    flush(true);
    r->lose(ring::kSteppedAside);
    writeMark(*r, "tracesmith: stepped aside for another profiler");
  }
  pthread_mutex_unlock(&g_kinds_mutex);
}

void otherIsDone() {
  if (g_aside.load()) g_return_ns = ring::nowNs() + kReturnAfterNs;
}

void cuptiEnds() {
  stepAside(nullptr);
  pthread_mutex_lock(&g_kinds_mutex);
  g_clock_set = false;  // it forgets all it was told
  pthread_mutex_unlock(&g_kinds_mutex);
  otherIsDone();
}

void startCuda(RingWriter& r, bool late) {
  if (g_running.exchange(true)) return;
  void* library = openCupti();
  if (!library || !resolveCupti(library, g_cupti)) {
    r.header().cuda_state = 2;
    note(r, library ? "libcupti lacks functions that the probe needs: the GPU is not recorded"
                    : "libcupti was not found: the GPU is not recorded (set CUDA_HOME or TRACESMITH_CUPTI)");
    g_running = false;
    return;
  }
  if (late) {
    // A clock that is set now spoils records. CUPTI's own is the system's, and each fetch converts from it.
    g_cupti.ActivityRegisterTimestampCallback = nullptr;
    g_graphs_whole = false;
  }
  if (g_cupti.GetVersion) g_cupti.GetVersion(&g_source.version);
  r.header().cupti_version = g_source.version;
  prepareBuffers(g_source.version);
  if (g_cupti.SetThreadIdType) g_cupti.SetThreadIdType(1);  // as gettid()
  Result registered = 0;
  if (!g_aside.load()) {
    setClock();
    registered = g_cupti.ActivityRegisterCallbacks(requestBuffer, completeBuffer);
  }
  if (registered != 0) {
    r.header().cuda_state = 2;
    note(r, "CUPTI refused to start (another profiler, or no permission): the GPU is not recorded");
    g_running = false;
    return;
  }
  r.header().cuda_state = 1;
  flushAtExit();  // before libcupti's own destructors, which were registered when it was loaded
  pthread_mutex_lock(&g_kinds_mutex);
  follow(r);
  if (!g_enabled) {
    g_graphs_whole = false;
    tell(r, {.off = true, .start = ring::nowNs()});
  }
  pthread_mutex_unlock(&g_kinds_mutex);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // signals are for the job's threads
  pthread_t thread;
  if (pthread_create(&thread, nullptr, loop, nullptr) == 0) {
    pthread_detach(thread);  // nobody waits for it: it ends with the process
  } else {
    note(r, "cannot start the probe's thread: the GPU is not recorded");
    r.header().cuda_state = 2;
    disable(r);
    g_running = false;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void stopCuda(RingWriter& r) {
  if (!g_running.exchange(false)) return;
  // Our thread may be in the middle of starting CUPTI. Do not delay the job's exit for that.
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  const bool alone = pthread_mutex_timedlock(&g_flush_mutex, &until) == 0;
  // Somebody is inside CUPTI and does not come back: a second call might not either.
  if (!alone)
    note(r, "CUPTI did not answer when the process ended: its last records are missing");
  else if (!g_aside.load())
    flush(true);
  drain(r);
  pollEvents(r, true);
  if (alone) pthread_mutex_unlock(&g_flush_mutex);
}

void forgetCuda() {
  g_running = false;
  g_enabled = false;
  g_aside = false;
  g_graphs_whole = true;
  pthread_mutex_init(&g_kinds_mutex, nullptr);
  pthread_mutex_init(&g_drain_mutex, nullptr);
  pthread_mutex_init(&g_flush_mutex, nullptr);
  forgetEvents();
  forgetCaptures();
}

const Functions* usableCupti() { return g_running && !g_aside.load() ? &g_cupti : nullptr; }

uint32_t streamId(void* stream) {
  uint32_t id = 0;
  if (!g_running || !g_cupti.GetStreamIdEx || g_cupti.GetStreamIdEx(nullptr, stream, 0, &id) != 0) return 0;
  return id;
}

}  // namespace tracesmith::probe
