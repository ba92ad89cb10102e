// CUPTI activity records into the ring. CUPTI calls two of our functions on the job's threads: one hands out a buffer,
// one takes it back; everything else happens on a thread of our own.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "capture/probe/cupti_abi.hpp"
#include "capture/probe/cupti_records.hpp"
#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
namespace {

using namespace cupti;

// CUPTI hands a buffer over when all its kernels have ended. A job that launches ahead always has some in the newest
// one, so the size of a buffer is how late a live view is: large ones show a busy GPU as standing still.
// Below 128 KB launches pay for it (docs/measurements.md). TRACESMITH_CUPTI_BUFFER_KB can change it.
constexpr size_t kBufferBytes = 128u << 10;  // about 600 kernels
constexpr size_t kChunkBytes = 1u << 20;     // buffers are made by the chunk
constexpr int kReadyChunks = 16;             // touched before the job needs them
constexpr int kMaxChunks = 512;              // TRACESMITH_CUPTI_MB can make it less
constexpr uint32_t kNullBufferSince = 27;    // CUDA 12.9: before, CUPTI crashes when it is given no buffer
constexpr long kPeriodMs = 100;

/// A buffer while it waits in one of the two lists; its bytes follow.
struct alignas(64) Buffer {
  Buffer* next;         // in g_done
  size_t valid;         //
  uint32_t index;       // of all buffers
  uint32_t below_free;  // in g_free
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(this + 1); }
};

/// Lock-free stack. take() empties it whole, so the ABA problem does not arise.
class Stack {
 public:
  void push(Buffer* b) {
    b->next = top_.load(std::memory_order_relaxed);
    while (!top_.compare_exchange_weak(b->next, b, std::memory_order_release)) {
    }
  }
  Buffer* take() { return top_.exchange(nullptr, std::memory_order_acquire); }

 private:
  std::atomic<Buffer*> top_{nullptr};
};

CuptiSource g_source;
Functions& g_cupti = g_source.functions;
size_t g_buffer_bytes = kBufferBytes;
std::atomic<int> g_chunks{0};
int g_max_chunks = kMaxChunks;
std::atomic<uint8_t*> g_chunk[kMaxChunks];  // never unmapped: a pointer that is in none is somebody else's

uint32_t buffersPerChunk() { return static_cast<uint32_t>(kChunkBytes / (sizeof(Buffer) + g_buffer_bytes)); }
Buffer* bufferAt(uint32_t index) {
  uint8_t* chunk = g_chunk[index / buffersPerChunk()].load(std::memory_order_acquire);
  return reinterpret_cast<Buffer*>(chunk + (index % buffersPerChunk()) * (sizeof(Buffer) + g_buffer_bytes));
}

/// Lock-free stack of buffers nobody uses. The upper half of its word counts the pops: a top that was popped and pushed
/// again is another one.
class FreeBuffers {
 public:
  void push(Buffer* b) {
    uint64_t top = top_.load(std::memory_order_relaxed);
    do __atomic_store_n(&b->below_free, static_cast<uint32_t>(top), __ATOMIC_RELAXED);
    while (!top_.compare_exchange_weak(top, (top & ~kIndex) | b->index, std::memory_order_release));
  }
  Buffer* pop() {
    uint64_t top = top_.load(std::memory_order_acquire);
    while ((top & kIndex) != kIndex) {
      // Another thread may have popped it meanwhile and its word be old: then the exchange fails.
      Buffer* b = bufferAt(static_cast<uint32_t>(top));
      const uint64_t next = ((top >> 32) + 1) << 32 | __atomic_load_n(&b->below_free, __ATOMIC_RELAXED);
      if (top_.compare_exchange_weak(top, next, std::memory_order_acquire)) return b;
    }
    return nullptr;
  }

 private:
  static constexpr uint64_t kIndex = 0xffffffff;
  std::atomic<uint64_t> top_{kIndex};
};
FreeBuffers g_free;
Stack g_done;
std::atomic<bool> g_running{false};
std::atomic<bool> g_aside{false};      // another profiler has the activity API
std::atomic<uint64_t> g_return_ns{0};  // when to take it back; 0: not while the other one is at work
std::atomic<BufferCompleted> g_other_completed{nullptr};
constexpr uint64_t kReturnAfterNs = 2'000'000'000;  // the other one may still fetch its last buffers
// Guards the next two: our thread, and the thread of a profiler that begins. Taken before g_drain_mutex.
pthread_mutex_t g_kinds_mutex = PTHREAD_MUTEX_INITIALIZER;
bool g_enabled = false;
Mode g_enabled_mode = Mode::light;
pthread_mutex_t g_drain_mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the GPU's lane: our thread and the exit handler
// Held while CUPTI hands over buffers: at exit those our thread has fetched must have arrived.
pthread_mutex_t g_flush_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_t g_thread;
uint8_t g_discard[64 * 1024];  // where an old CUPTI writes when there is nothing else to give it

/// A chunk of buffers: one for the caller, the others are free.
Buffer* newBuffers() {
  const int n = g_chunks.fetch_add(1);
  if (n >= g_max_chunks) {
    g_chunks.fetch_sub(1);
    return nullptr;
  }
  void* p = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  g_chunk[n].store(static_cast<uint8_t*>(p), std::memory_order_release);
  const uint32_t each = buffersPerChunk(), first = static_cast<uint32_t>(n) * each;
  for (uint32_t i = first; i < first + each; ++i) bufferAt(i)->index = i;
  for (uint32_t i = first + 1; i < first + each; ++i) g_free.push(bufferAt(i));
  return bufferAt(first);
}

bool isOurs(const uint8_t* bytes) {
  for (int i = 0; i < kMaxChunks; ++i) {
    const uint8_t* chunk = g_chunk[i].load(std::memory_order_acquire);
    if (chunk && bytes >= chunk && bytes < chunk + kChunkBytes) return true;
    if (!chunk && i >= g_chunks.load(std::memory_order_acquire)) return false;
  }
  return false;
}

void onBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;
  Buffer* b = g_free.pop();
  if (!b) b = newBuffers();
  const bool none = !b && g_source.version >= kNullBufferSince;  // CUPTI counts what it has no room for
  *buffer = b ? b->bytes() : none ? nullptr : g_discard;
  *size = b ? g_buffer_bytes : none ? 0 : sizeof g_discard;
}

void onBufferCompleted(void* context, uint32_t stream, uint8_t* bytes, size_t size, size_t valid) {
  if (!bytes) return;
  if (bytes == g_discard) {
    if (RingWriter* r = ring::g_ring.load())
      r->lose(ring::kCuptiDropped, valid / 128);  // a guess: records of about that size
    return;
  }
  if (!isOurs(bytes)) {  // of the profiler we stepped aside for
    if (BufferCompleted other = g_other_completed.load()) other(context, stream, bytes, size, valid);
    return;
  }
  Buffer* b = reinterpret_cast<Buffer*>(bytes) - 1;
  b->valid = valid;
  g_done.push(b);
}

uint64_t timestamp() { return ring::nowNs(); }

void writeMark(RingWriter& r, const char* text) {
  Record mark{};
  mark.kind = ring::Kind::mark;
  mark.name = r.intern(text);
  mark.start = ring::nowNs();
  r.write(mark);
}

// ---- finding libcupti

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

/// The libcupti the process has, or nullptr.
void* loadedCupti() {
  Found found{};
  return dl_iterate_phdr(findLoaded, &found) ? dlopen(found.path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
}

namespace {

/// The copy the process already has, else one near the CUDA runtime it uses, else an installed toolkit's.
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

bool resolve(void* library) {
  auto get = [&](auto& function, const char* name) {
    *reinterpret_cast<void**>(&function) = dlsym(library, name);
    return function != nullptr;
  };
  bool good = get(g_cupti.ActivityRegisterCallbacks, "cuptiActivityRegisterCallbacks") &&
              get(g_cupti.ActivityEnable, "cuptiActivityEnable") &&
              get(g_cupti.ActivityDisable, "cuptiActivityDisable") &&
              get(g_cupti.ActivityGetNextRecord, "cuptiActivityGetNextRecord") &&
              get(g_cupti.ActivityFlushAll, "cuptiActivityFlushAll");
  get(g_cupti.ActivityEnableRuntimeApi, "cuptiActivityEnableRuntimeApi");
  get(g_cupti.ActivityEnableDriverApi, "cuptiActivityEnableDriverApi");
  get(g_cupti.ActivityGetNumDroppedRecords, "cuptiActivityGetNumDroppedRecords");
  get(g_cupti.ActivityRegisterTimestampCallback, "cuptiActivityRegisterTimestampCallback");
  get(g_cupti.ActivitySetAttribute, "cuptiActivitySetAttribute");
  get(g_cupti.SetThreadIdType, "cuptiSetThreadIdType");
  get(g_cupti.GetVersion, "cuptiGetVersion");
  get(g_cupti.GetCallbackName, "cuptiGetCallbackName");
  get(g_cupti.GetStreamIdEx, "cuptiGetStreamIdEx");
  return good;
}

// ---- what is enabled in which mode

/// Only the calls that start work. False where CUPTI cannot choose (before CUDA 12.5).
bool setApis(bool on) {
  if (!g_cupti.ActivityEnableRuntimeApi || !g_cupti.ActivityEnableDriverApi ||
      g_cupti.ActivityEnableRuntimeApi(kLaunchRuntime[0].first, on) != 0)
    return false;
  for (const CallRange& r : kLaunchRuntime)
    for (uint32_t cbid = r.first; cbid <= r.last; ++cbid) g_cupti.ActivityEnableRuntimeApi(cbid, on);
  for (const CallRange& r : kLaunchDriver)
    for (uint32_t cbid = r.first; cbid <= r.last; ++cbid) g_cupti.ActivityEnableDriverApi(cbid, on);
  return true;
}

void setKinds(Mode mode, bool on) {
  auto set = [&](uint32_t kind) { on ? g_cupti.ActivityEnable(kind) : g_cupti.ActivityDisable(kind); };
  set(kConcurrentKernel);
  set(kMemcpy);
  set(kMemcpy2);
  set(kMemset);
  if (!wantsGraphNodes()) set(kGraphTrace);
  if (mode != Mode::light) set(kSynchronization);
  if (mode == Mode::standard && !setApis(on)) set(kRuntime);
  if (mode == Mode::full) {
    set(kRuntime);
    set(kDriver);
    set(kOverhead);
  }
}

void enable(RingWriter& r, Mode mode) {
  setKinds(mode, true);
  g_enabled_mode = mode;
  g_enabled = true;
  Record on{};
  on.kind = ring::Kind::gpu_on;
  on.start = ring::nowNs();
  pthread_mutex_lock(&g_drain_mutex);  // the exit handler may be writing to that lane
  r.writeGpu(on);
  pthread_mutex_unlock(&g_drain_mutex);
}

void disable() {
  if (g_enabled) setKinds(g_enabled_mode, false);
  g_enabled = false;
}

/// Follows the control word: recording on or off, another mode. With g_kinds_mutex.
void follow(RingWriter& r) {
  const bool want = recording(r) && !g_aside.load();
  if (g_enabled && (!want || mode(r) != g_enabled_mode)) disable();
  if (want && !g_enabled) enable(r, mode(r));
}

// ---- our thread

void drain(RingWriter& r) {
  pthread_mutex_lock(&g_drain_mutex);
  if (!g_cupti.ActivityRegisterTimestampCallback) g_source.to_raw_ns = -unixMinusRaw();
  Buffer* list = g_done.take();
  Buffer* ordered = nullptr;  // the stack gives the newest first
  while (list) {
    Buffer* next = list->next;
    list->next = ordered;
    ordered = list;
    list = next;
  }
  while (ordered) {
    Buffer* b = ordered;
    ordered = b->next;
    void* record = nullptr;
    while (g_cupti.ActivityGetNextRecord(b->bytes(), b->valid, &record) == 0) writeRecord(r, g_source, record);
    g_free.push(b);
  }
  size_t dropped = 0;
  if (g_cupti.ActivityGetNumDroppedRecords && g_cupti.ActivityGetNumDroppedRecords(nullptr, 0, &dropped) == 0 &&
      dropped > 0)
    r.lose(ring::kCuptiDropped, dropped);
  pthread_mutex_unlock(&g_drain_mutex);
}

void flush(bool forced) { g_cupti.ActivityFlushAll(forced ? 1 : 0); }

void comeBack(RingWriter& r) {
  g_return_ns = 0;
  g_cupti.ActivityRegisterCallbacks(onBufferRequested, onBufferCompleted);
  if (g_cupti.ActivityRegisterTimestampCallback) g_cupti.ActivityRegisterTimestampCallback(timestamp);
  flush(false);  // the other's half-full buffer goes to the other, before our records can come into it
  g_aside = false;
  writeMark(r, "tracesmith: back");
}

void* loop(void*) {
  pthread_setname_np(pthread_self(), "tracesmith");
  const char* every = getenv("TRACESMITH_FLUSH_MS");
  const uint64_t flush_ns = static_cast<uint64_t>(every && atoi(every) > 0 ? atoi(every) : kPeriodMs) * 1'000'000;
  uint64_t flushed = 0;
  bool was_recording = false;
  while (g_running.load()) {
    RingWriter* r = ring::g_ring.load();
    if (!r) return nullptr;
    r->header().heartbeat_ns.store(ring::nowNs(), std::memory_order_relaxed);
    pthread_mutex_lock(&g_kinds_mutex);
    if (uint64_t at = g_return_ns.load(); g_aside.load() && at != 0 && ring::nowNs() > at) comeBack(*r);
    follow(*r);
    pthread_mutex_unlock(&g_kinds_mutex);
    // When paused too, and at once: what was recorded before is still in CUPTI.
    const bool ended = was_recording && !recording(*r);
    was_recording = recording(*r);
    if (const uint64_t now = ring::nowNs(); !g_aside.load() && (ended || now - flushed + 1'000'000 >= flush_ns)) {
      pthread_mutex_lock(&g_flush_mutex);
      flush(false);
      pthread_mutex_unlock(&g_flush_mutex);
      flushed = now;
    }
    drain(*r);
    timespec pause{0, kPeriodMs * 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return nullptr;
}

}  // namespace

void stepAside(BufferCompleted other) {
  RingWriter* r = ring::g_ring.load();
  pthread_mutex_lock(&g_kinds_mutex);
  g_other_completed = other;
  g_return_ns = 0;
  if (!g_aside.exchange(true) && r && g_running) {  // not running: it was there before us
    // What was recorded so far is ours: turned off and fetched before the other's buffers are in place.
    disable();
    flush(true);
    r->lose(ring::kSteppedAside);
    writeMark(*r, "tracesmith: stepped aside for another profiler");
  }
  pthread_mutex_unlock(&g_kinds_mutex);
}

void otherIsDone() {
  if (g_aside.load()) g_return_ns = ring::nowNs() + kReturnAfterNs;
}

void startCuda(RingWriter& r) {
  if (g_running.exchange(true)) return;
  void* library = openCupti();
  if (!library || !resolve(library)) {
    r.header().cuda_state = 2;
    note(r, library ? "libcupti lacks functions: GPU records are off"
                    : "no libcupti found (set CUDA_HOME or TRACESMITH_CUPTI): GPU records are off");
    g_running = false;
    return;
  }
  if (g_cupti.GetVersion) g_cupti.GetVersion(&g_source.version);
  r.header().cupti_version = g_source.version;
  if (const char* mb = getenv("TRACESMITH_CUPTI_MB"); mb && atoi(mb) > 0 && atoi(mb) < kMaxChunks)
    g_max_chunks = atoi(mb);
  if (const char* kb = getenv("TRACESMITH_CUPTI_BUFFER_KB"); kb && atoi(kb) >= 4 && atoi(kb) <= 1000)
    g_buffer_bytes = static_cast<size_t>(atoi(kb)) << 10;
  for (int i = 0; i < kReadyChunks; ++i)
    if (Buffer* b = newBuffers()) g_free.push(b);
  if (g_cupti.SetThreadIdType) g_cupti.SetThreadIdType(1);  // as gettid()
  // Once per process and before any context: later registrations spoil records.
  Result registered = 0;
  if (!g_aside.load()) {
    if (g_cupti.ActivityRegisterTimestampCallback) g_cupti.ActivityRegisterTimestampCallback(timestamp);
    registered = g_cupti.ActivityRegisterCallbacks(onBufferRequested, onBufferCompleted);
  }
  if (registered != 0) {
    r.header().cuda_state = 2;
    note(r, "CUPTI refused (another profiler, or no permission): GPU records are off");
    g_running = false;
    return;
  }
  r.header().cuda_state = 1;
  flushAtExit();  // before libcupti's own destructors, which were registered when it was loaded
  pthread_mutex_lock(&g_kinds_mutex);
  follow(r);
  pthread_mutex_unlock(&g_kinds_mutex);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);  // the job's signals go to the job's threads
  if (pthread_create(&g_thread, nullptr, loop, nullptr) != 0) {
    note(r, "no thread for the probe: GPU records are off");
    r.header().cuda_state = 2;
    disable();
    g_running = false;
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void stopCuda(RingWriter& r) {
  if (!g_running.exchange(false)) return;
  // Our thread may be in the middle of it, with the first buffers in its hands. It is not worth the job's exit.
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  const bool alone = pthread_mutex_timedlock(&g_flush_mutex, &until) == 0;
  if (!g_aside.load()) flush(true);
  drain(r);
  if (alone) pthread_mutex_unlock(&g_flush_mutex);
}

void forgetCuda() {
  g_running = false;
  g_enabled = false;
  g_aside = false;
  pthread_mutex_init(&g_kinds_mutex, nullptr);
  pthread_mutex_init(&g_drain_mutex, nullptr);
  pthread_mutex_init(&g_flush_mutex, nullptr);
}

uint32_t streamId(void* stream) {
  uint32_t id = 0;
  if (!g_running || !g_cupti.GetStreamIdEx || g_cupti.GetStreamIdEx(nullptr, stream, 0, &id) != 0) return 0;
  return id;
}

}  // namespace tracesmith::probe
