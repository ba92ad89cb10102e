#include "capture/probe/cupti_buffers.hpp"

#include <stdlib.h>
#include <sys/mman.h>

#include "capture/probe/probe.hpp"

namespace tracesmith::probe {
namespace {

// CUPTI hands a buffer over when all its kernels have ended. A job that launches ahead always has some in the newest
// one, so a live view lags by the size of a buffer: with large ones a busy GPU seems to stand still.
// Below 128 KB launches get slower (docs/measurements.md). TRACESMITH_CUPTI_BUFFER_KB can change it.
constexpr size_t kBufferBytes = 128u << 10;  // about 600 kernels
constexpr size_t kChunkBytes = 1u << 20;     // buffers are allocated in chunks
constexpr int kReadyChunks = 16;             // touched before the job needs them
constexpr int kMaxChunks = 512;              // TRACESMITH_CUPTI_MB can lower it
constexpr uint32_t kNullBufferSince = 27;    // CUDA 12.9; older versions crash when they get no buffer

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

size_t g_buffer_bytes = kBufferBytes;
std::atomic<int> g_chunks{0};
int g_max_chunks = kMaxChunks;
std::atomic<uint8_t*> g_chunk[kMaxChunks];  // never unmapped: a pointer outside all of them is not ours

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
Stack g_full;
std::atomic<cupti::BufferCompleted> g_other_completed{nullptr};
uint32_t g_version = 0;
uint8_t g_discard[64 * 1024];  // where an old CUPTI writes when no buffer is left

/// Allocates a chunk of buffers: one is for the caller, the others are free.
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

}  // namespace

void requestBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;
  Buffer* b = g_free.pop();
  if (!b) b = newBuffers();
  const bool none = !b && g_version >= kNullBufferSince;  // CUPTI counts what it has no room for
  *buffer = b ? b->bytes() : none ? nullptr : g_discard;
  *size = b ? g_buffer_bytes : none ? 0 : sizeof g_discard;
}

void completeBuffer(void* context, uint32_t stream, uint8_t* bytes, size_t size, size_t valid) {
  if (!bytes) return;
  if (bytes == g_discard) {
    if (RingWriter* r = ring::g_ring.load())
      r->lose(ring::kCuptiDropped, valid / 128);  // a guess: records of about that size
    return;
  }
  if (!isOurs(bytes)) {  // of the profiler we stepped aside for
    if (cupti::BufferCompleted other = g_other_completed.load()) other(context, stream, bytes, size, valid);
    return;
  }
  Buffer* b = reinterpret_cast<Buffer*>(bytes) - 1;
  b->valid = valid;
  g_full.push(b);
}

void prepareBuffers(uint32_t cupti_version) {
  g_version = cupti_version;
  if (const char* mb = getenv("TRACESMITH_CUPTI_MB"); mb && atoi(mb) > 0 && atoi(mb) < kMaxChunks)
    g_max_chunks = atoi(mb);
  if (const char* kb = getenv("TRACESMITH_CUPTI_BUFFER_KB"); kb && atoi(kb) >= 4 && atoi(kb) <= 1000)
    g_buffer_bytes = static_cast<size_t>(atoi(kb)) << 10;
  for (int i = 0; i < kReadyChunks; ++i)
    if (Buffer* b = newBuffers()) g_free.push(b);
}

void passOtherBuffersTo(cupti::BufferCompleted other) { g_other_completed = other; }

Buffer* takeFullBuffers() {
  Buffer* list = g_full.take();
  Buffer* ordered = nullptr;  // the stack gives the newest first
  while (list) {
    Buffer* next = list->next;
    list->next = ordered;
    ordered = list;
    list = next;
  }
  return ordered;
}

void freeBuffer(Buffer* buffer) { g_free.push(buffer); }

}  // namespace tracesmith::probe
