// A stand-in for libcupti: its functions, its buffers, its records, byte for byte as the real one lays them out (CUDA
// 10 to 13).
//   FAKE_CUPTI_VERSION     what cuptiGetVersion answers; decides how long records are and whether buffers are per
//   thread (130001) FAKE_CUPTI_REFUSE      cuptiActivityRegisterCallbacks fails, as under another profiler
//   FAKE_CUPTI_BUFFER      records that fit into one buffer, whatever its size
//   FAKE_CUPTI_DEAR_US     how much longer a launch takes while kernels are recorded
//   FAKE_CUPTI_STUCK       a file that is made when records are asked for; there is never an answer
// Built twice: with FAKE_CUPTI_OLD it lacks the functions that came after CUDA 11.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "cupti_records.hpp"
#include "driver.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace tracesmith::fake;

using Requested = void (*)(uint8_t**, size_t*, size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

struct Buffer {
  uint8_t* bytes = nullptr;
  size_t size = 0, valid = 0, records = 0;
  bool complete = true;  // no record in it waits for its end
};

std::mutex g_mutex;  // guards everything below
Requested g_requested;
Completed g_completed;
uint64_t (*g_timestamp)();
std::set<uint32_t>&g_kinds = *new std::set<uint32_t>, &g_runtime_calls = *new std::set<uint32_t>,
                                                      &g_driver_calls = *new std::set<uint32_t>;
// Of all threads. Never destroyed: the probe flushes when the process ends, after objects like this one are gone.
std::vector<Buffer*>& g_buffers = *new std::vector<Buffer*>;
bool g_worked, g_graphs_late;  // the GPU had work before graphs were to be timed: the real one crashes then
size_t g_dropped, g_buffers_requested, g_buffers_completed, g_clocks;
Buffer g_shared;
thread_local Buffer* t_buffer;

Buffer& bufferOfThread() {
  if (version() < 130000) {
    if (g_buffers.empty()) g_buffers.push_back(&g_shared);
    return g_shared;
  }
  if (!t_buffer) g_buffers.push_back(t_buffer = new Buffer);
  return *t_buffer;
}

/// Hands a buffer back. Called without the lock, as CUPTI's callbacks call CUPTI.
void complete(const Buffer& b, Completed completed) { completed(nullptr, 0, b.bytes, b.size, b.valid); }

Fate put(uint32_t kind, const Bytes& record, bool ended) {
  const size_t length = lengthOf(kind), most = number("FAKE_CUPTI_BUFFER", 1u << 30);
  std::unique_lock lock(g_mutex);
  Buffer& b = bufferOfThread();
  while (b.bytes && (b.size - b.valid < length || b.records >= most)) {
    const Buffer full = b;
    b = {};
    ++g_buffers_completed;
    Completed completed = g_completed;
    lock.unlock();
    complete(full, completed);
    lock.lock();
  }
  if (!b.bytes) {
    size_t most_records = 0;
    g_requested(&b.bytes, &b.size, &most_records);
    if (!b.bytes) {
      ++g_dropped;
      return kNoBuffer;
    }
    ++g_buffers_requested;
  }
  std::memcpy(b.bytes + b.valid, record.data, length);
  b.valid += length;
  ++b.records;
  b.complete = b.complete && ended;
  // Whoever reads beyond the last record reads this.
  std::memset(b.bytes + b.valid, 0xa5, std::min<size_t>(64, b.size - b.valid));
  return kKept;
}

bool isOn(uint32_t kind) {
  std::lock_guard lock(g_mutex);
  return g_kinds.contains(kind);
}

uint64_t systemClock() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000ull + static_cast<uint64_t>(t.tv_nsec);
}

// ---- the GPU's and the driver's side

uint64_t now() {
  uint64_t (*clock)() = nullptr;
  {
    std::lock_guard lock(g_mutex);
    clock = g_timestamp;
  }
  return clock ? clock() : systemClock();
}

Fate kernel(const Work& w) {
  if (std::lock_guard lock(g_mutex); true) g_worked = true;
  if (!isOn(kKernel)) return kOff;
  static const auto dear_us = static_cast<long>(number("FAKE_CUPTI_DEAR_US", 0));
  if (const timespec pause{0, dear_us * 1000}; dear_us > 0) ::nanosleep(&pause, nullptr);
  Bytes b(kKernel);
  b.set<uint16_t>(6, 32)
      .set(16, w.start)
      .set(24, w.end)
      .set(32, w.end)
      .set(40, w.device)
      .set(44, w.context)
      .set(48, w.stream);
  for (size_t i = 0; i < 3; ++i) b.set(52 + 4 * i, w.grid[i]).set(64 + 4 * i, w.block[i]);
  b.set(76, 1024).set(80, 2048).set(92, w.correlation).set<uint64_t>(96, w.correlation).set(104, w.name);
  if (version() >= 13) b.set(144, w.graph_node);
  if (version() >= 14) b.set(156, w.graph);
  return put(kKernel, b, w.end != 0);
}

Fate copy(const Work& w) {
  if (!isOn(kMemcpy)) return kOff;
  Bytes b(kMemcpy);
  b.set(4, w.copy_kind).set(5, w.from).set(6, w.to).set(8, w.bytes).set(16, w.start).set(24, w.end);
  b.set(32, w.device).set(36, w.context).set(40, w.stream).set(44, w.correlation);
  if (version() >= 13) b.set(64, w.graph_node);
  if (version() >= 14) b.set(72, w.graph);
  return put(kMemcpy, b, w.end != 0);
}

Fate peer(const Work& w) {
  if (!isOn(kPeer)) return kOff;
  Bytes b(kPeer);
  b.set<uint8_t>(4, 10).set<uint8_t>(5, 3).set<uint8_t>(6, 3).set(8, w.bytes).set(16, w.start).set(24, w.end);
  b.set(32, w.device)
      .set(36, w.context)
      .set(40, w.stream)
      .set(44, w.device)
      .set(48, w.context)
      .set(52, w.peer)
      .set(56, w.context + 1);
  b.set(60, w.correlation);
  return put(kPeer, b, w.end != 0);
}

Fate set(const Work& w) {
  if (!isOn(kMemset)) return kOff;
  Bytes b(kMemset);
  b.set(4, 0)
      .set(8, w.bytes)
      .set(16, w.start)
      .set(24, w.end)
      .set(32, w.device)
      .set(36, w.context)
      .set(40, w.stream)
      .set(44, w.correlation);
  if (version() >= 13) b.set(64, w.graph_node);
  if (version() >= 14) b.set(72, w.graph);
  return put(kMemset, b, w.end != 0);
}

Fate call(uint32_t kind, const std::set<uint32_t>& calls, const Work& w) {
  {
    std::lock_guard lock(g_mutex);
    if (!g_kinds.contains(kind) && !calls.contains(w.cbid)) return kOff;
  }
  Bytes b(kind);
  b.set(4, w.cbid)
      .set(8, w.start)
      .set(16, w.end)
      .set(24, static_cast<uint32_t>(getpid()))
      .set(28, w.thread)
      .set(32, w.correlation);
  return put(kind, b, true);
}
Fate runtimeCall(const Work& w) { return call(kRuntime, g_runtime_calls, w); }
Fate driverCall(const Work& w) { return call(kDriver, g_driver_calls, w); }

Fate sync(const Work& w) {
  if (!isOn(kSync)) return kOff;
  Bytes b(kSync);
  b.set(4, w.type).set(8, w.start).set(16, w.end).set(24, w.correlation).set(28, w.context).set(32, w.stream);
  return put(kSync, b, true);
}

Fate overhead(const Work& w) {
  if (!isOn(kOverhead)) return kOff;
  Bytes b(kOverhead);
  b.set(4, w.type << 16)
      .set(8, 2)
      .set(12, static_cast<uint32_t>(getpid()))
      .set(16, w.thread)
      .set(24, w.start)
      .set(32, w.end);
  return put(kOverhead, b, true);
}

Fate graph(const Work& w) {
  if (!isOn(kGraph)) return kOff;
  if (std::lock_guard lock(g_mutex); g_graphs_late) ::raise(SIGSEGV);
  Bytes b(kGraph);
  b.set(4, w.correlation)
      .set(8, w.start)
      .set(16, w.end)
      .set(24, w.device)
      .set(28, w.graph)
      .set(32, w.context)
      .set(36, w.stream);
  return put(kGraph, b, w.end != 0);
}

Fate unknown(uint32_t kind) { return put(kind, Bytes(kind), true); }

void drop(size_t count) {
  std::lock_guard lock(g_mutex);
  g_dropped += count;
}

int enabled(uint32_t kind) { return isOn(kind); }

void buffers(size_t* requested, size_t* completed) {
  std::lock_guard lock(g_mutex);
  *requested = g_buffers_requested;
  *completed = g_buffers_completed;
}

size_t clocks() {
  std::lock_guard lock(g_mutex);
  return g_clocks;
}

}  // namespace

EXPORT const Driver* fakeCuptiDriver() {
  static const Driver driver = {now,  enabled,  kernel, copy,    peer, set,     runtimeCall, driverCall,
                                sync, overhead, graph,  unknown, drop, buffers, clocks};
  return &driver;
}

// ---- CUPTI's side

EXPORT int cuptiGetVersion(uint32_t* v) {
  *v = version();
  return kOk;
}

EXPORT int cuptiActivityRegisterCallbacks(Requested requested, Completed completed) {
  if (!requested || !completed) return kInvalid;
  if (std::getenv("FAKE_CUPTI_REFUSE")) return kMultipleSubscribers;
  std::lock_guard lock(g_mutex);
  g_requested = requested;
  g_completed = completed;
  return kOk;
}

EXPORT int cuptiActivityEnable(uint32_t kind) {
  std::lock_guard lock(g_mutex);
  if (kind == kGraph) g_graphs_late = g_worked;
  g_kinds.insert(kind);
  return kOk;
}

EXPORT int cuptiActivityDisable(uint32_t kind) {
  std::lock_guard lock(g_mutex);
  g_kinds.erase(kind);
  return kOk;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag) {
  if (const char* stuck = std::getenv("FAKE_CUPTI_STUCK")) {
    ::close(::open(stuck, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (;;) ::pause();
  }
  std::vector<Buffer> done;
  Completed completed;
  {
    std::lock_guard lock(g_mutex);
    completed = g_completed;
    for (Buffer* b : g_buffers) {
      if (!b->bytes || (flag != 1 && !b->complete)) continue;
      done.push_back(*b);
      *b = {};
      ++g_buffers_completed;
    }
  }
  for (const Buffer& b : done) complete(b, completed);
  return kOk;
}

/// Forgets everything, buffers that are half full among it.
EXPORT int cuptiFinalize() {
  std::lock_guard lock(g_mutex);
  g_requested = nullptr;
  g_completed = nullptr;
  g_timestamp = nullptr;
  g_kinds.clear();
  g_runtime_calls.clear();
  g_driver_calls.clear();
  for (Buffer* b : g_buffers) *b = {};
  return kOk;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  if (!buffer || !record) return kInvalid;
  uint8_t* next = buffer;
  if (*record) {
    auto* current = static_cast<uint8_t*>(*record);
    uint32_t kind;
    std::memcpy(&kind, current, sizeof kind);
    next = current + lengthOf(kind);
  }
  if (next + sizeof(uint32_t) > buffer + valid) return kNoMoreRecords;
  *record = next;
  return kOk;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  std::lock_guard lock(g_mutex);
  *dropped = g_dropped;
  g_dropped = 0;
  return kOk;
}

EXPORT int cuptiSetThreadIdType(uint32_t type) { return type == 1 ? kOk : kInvalid; }
EXPORT int cuptiActivitySetAttribute(uint32_t, size_t*, void*) { return kOk; }

EXPORT int cuptiGetCallbackName(uint32_t domain, uint32_t cbid, const char** name) {
  if (domain == 2) {
    *name = cbid == 211   ? "cudaLaunchKernel_v7000"
            : cbid == 41  ? "cudaMemcpyAsync_v3020"
            : cbid == 311 ? "cudaGraphLaunch_v10000"
            : cbid == 10  ? "cudaGetLastError_v3020"
            : cbid == 131 ? "cudaStreamSynchronize_v3020"
            : cbid == 137 ? "cudaEventSynchronize_v3020"
            : cbid == 147 ? "cudaStreamWaitEvent_v3020"
            : cbid == 165 ? "cudaDeviceSynchronize_v3020"
                          : nullptr;
  } else {
    *name = cbid == 307   ? "cuLaunchKernel"
            : cbid == 652 ? "cuLaunchKernelEx"
            : cbid == 12  ? "cuCtxGetCurrent"
                          : nullptr;
  }
  return *name ? kOk : kInvalid;
}

/// A stream's id is what its handle points to; the default stream is 7.
EXPORT int cuptiGetStreamIdEx(void*, void* stream, uint8_t, uint32_t* id) {
  *id = stream ? *static_cast<uint32_t*>(stream) : 7;
  return kOk;
}

#ifndef FAKE_CUPTI_OLD
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  std::lock_guard lock(g_mutex);
  g_timestamp = clock;
  ++g_clocks;
  return kOk;
}

EXPORT int cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t on) {
  if (version() < 23) return kNotSupported;
  std::lock_guard lock(g_mutex);
  if (on)
    g_runtime_calls.insert(cbid);
  else
    g_runtime_calls.erase(cbid);
  return kOk;
}

EXPORT int cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t on) {
  if (version() < 23) return kNotSupported;
  std::lock_guard lock(g_mutex);
  if (on)
    g_driver_calls.insert(cbid);
  else
    g_driver_calls.erase(cbid);
  return kOk;
}
#endif
