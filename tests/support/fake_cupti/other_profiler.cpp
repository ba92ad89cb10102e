// Another profiler in the process, as torch.profiler is one: linked with libcupti, it takes the activity API for
// itself, counts what it gets, and lets go. Its calls reach whatever stands before libcupti for everybody.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
int cuptiActivityRegisterCallbacks(void (*requested)(uint8_t**, size_t*, size_t*),
                                   void (*completed)(void*, uint32_t, uint8_t*, size_t, size_t));
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record);
int cuptiFinalize();
int cuptiSubscribe(void** subscriber, void (*callback)(void*, int, uint32_t, const void*), void* user);
}

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kBytes = 64 * 1024;
std::atomic<size_t> g_given{0}, g_returned{0}, g_kernels{0}, g_foreign{0};
void* g_mine[4096];  // every buffer given out

void requested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBytes));
  *size = kBytes;
  *max_records = 0;
  g_mine[g_given++] = *buffer;
}

void completed(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  bool mine = false;
  for (size_t i = 0; i < g_given; ++i) mine |= g_mine[i] == buffer;
  if (!mine) {
    ++g_foreign;
    return;
  }
  void* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == 0) g_kernels += *static_cast<uint32_t*>(record) == 10;
  ++g_returned;
}

}  // namespace

/// It may also be what CUDA_INJECTION64_PATH names; then it leaves a file to show that it was called.
EXPORT int InitializeInjection() {
  if (const char* path = std::getenv("FAKE_INJECTION_FILE"))
    if (std::FILE* f = std::fopen(path, "w")) std::fclose(f);
  return 1;
}

EXPORT void otherProfilerStart() {
  cuptiActivityRegisterCallbacks(requested, completed);
  cuptiActivityEnable(10);
}

EXPORT int otherProfilerSubscribe() {
  void* subscriber = nullptr;
  return cuptiSubscribe(
      &subscriber, [](void*, int, uint32_t, const void*) {}, nullptr);
}

/// Lets go without fetching its last buffers, as one that will look at them later.
EXPORT void otherProfilerStop() { cuptiActivityDisable(10); }

/// Fetches what it has and ends CUPTI, as Kineto does when it is told to.
EXPORT void otherProfilerFinalize() {
  cuptiActivityDisable(10);
  cuptiActivityFlushAll(1);
  cuptiFinalize();
}

EXPORT void otherProfilerCounts(size_t* given, size_t* returned, size_t* kernels, size_t* foreign) {
  *given = g_given;
  *returned = g_returned;
  *kernels = g_kernels;
  *foreign = g_foreign;
}
