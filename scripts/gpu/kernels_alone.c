/* An injection library for scripts/gpu/overhead.py: what CUPTI costs by itself. Records are thrown away, so no recorder can undercut it.
   Loaded by CUDA_INJECTION64_PATH. KERNELS_ALONE says what CUPTI does, separated by commas:
     kernels         records of kernels; without this word CUPTI is there and records nothing
     runtime, driver records of the calls that launch, by CUPTI's filter
     callbacks       the same calls by callbacks, two clock readings each
     late=S          records of kernels from S seconds after CUDA's start on, when contexts exist
     off=N           nothing more after N buffers of records: what stays when recording has ended
     detach=N        the same, and CUPTI is taken out of the process (cuptiFinalize)
   KERNELS_ALONE_CUPTI is the path of libcupti where the loader does not find it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kConcurrentKernel = 10, kBytes = 128 << 10, kMost = 1024, kDriver = 1, kRuntime = 2 };
/* The launch calls torch and its libraries make: cudaLaunchKernel, cudaLaunchKernelExC, cudaMemcpyAsync, cudaMemsetAsync; cuLaunchKernel, cuLaunchKernelEx. */
static const uint32_t kRuntimeCalls[] = {211, 214, 430, 431, 41, 51, 0}, kDriverCalls[] = {307, 442, 652, 653, 0};

static void *free_buffers[kMost], *cupti;
static int free_count;
static atomic_int completed_count;
static int on_after, off_after, detach;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint64_t entered, slots[64];
static _Thread_local unsigned slot;

static void* function(const char* name) {
  void* f = dlsym(cupti, name);
  if (!f) fprintf(stderr, "kernels_alone: no %s\n", name);
  return f;
}

static void requested(uint8_t** buffer, size_t* size, size_t* records) {
  pthread_mutex_lock(&mutex);
  void* b = free_count > 0 ? free_buffers[--free_count] : NULL;
  pthread_mutex_unlock(&mutex);
  if (!b && (b = aligned_alloc(64, kBytes))) memset(b, 0, kBytes);
  *buffer = b;
  *size = b ? kBytes : 0;
  *records = 0;
}

static void completed(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size, (void)valid;
  pthread_mutex_lock(&mutex);
  if (free_count < kMost) {
    free_buffers[free_count++] = buffer;
    buffer = NULL;
  }
  pthread_mutex_unlock(&mutex);
  free(buffer);
  atomic_fetch_add(&completed_count, 1);
}

static void called(void* user, int domain, uint32_t cbid, const int* data) {
  (void)user, (void)domain, (void)cbid;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
  if (*data == 0)
    entered = now;
  else
    slots[slot++ % 64] = now - entered;
}

static void chooseCalls(const char* name, const uint32_t* calls, uint8_t on) {
  int (*set)(uint32_t, uint8_t) = (int (*)(uint32_t, uint8_t))function(name);
  for (; set && *calls; ++calls) set(*calls, on);
}

static void* handle;
static void subscribe(void) {
  int (*sub)(void**, void*, void*) = (int (*)(void**, void*, void*))function("cuptiSubscribe");
  int (*on)(uint32_t, void*, int, uint32_t) = (int (*)(uint32_t, void*, int, uint32_t))function("cuptiEnableCallback");
  if (!sub || !on || sub(&handle, (void*)called, NULL)) return;
  for (const uint32_t* c = kRuntimeCalls; *c; ++c) on(1, handle, kRuntime, *c);
  for (const uint32_t* c = kDriverCalls; *c; ++c) on(1, handle, kDriver, *c);
}

static void* turnOn(void* unused) {
  sleep((unsigned)on_after);
  ((int (*)(int))function("cuptiActivityEnable"))(kConcurrentKernel);
  return unused;
}

static void* turnOff(void* unused) {
  int (*disable)(int) = (int (*)(int))function("cuptiActivityDisable");
  int (*flush)(uint32_t) = (int (*)(uint32_t))function("cuptiActivityFlushAll");
  int (*finalize)(void) = (int (*)(void))function("cuptiFinalize");
  while (atomic_load(&completed_count) < off_after) usleep(10000);
  chooseCalls("cuptiActivityEnableRuntimeApi", kRuntimeCalls, 0);
  chooseCalls("cuptiActivityEnableDriverApi", kDriverCalls, 0);
  int (*unsubscribe)(void*) = (int (*)(void*))function("cuptiUnsubscribe");
  if (handle) unsubscribe(handle);
  int off = disable(kConcurrentKernel), flushed = flush(1), gone = detach ? finalize() : 0;
  fprintf(stderr, "kernels_alone: off (%d, %d, %d)\n", off, flushed, gone);
  return unused;
}

/* Called by the CUDA driver. A failure is told and leaves the job alone; returning 0 would stop it. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
  const char *named = getenv("KERNELS_ALONE_CUPTI"), *given = getenv("KERNELS_ALONE");
  cupti = dlopen(named && *named ? named : "libcupti.so.13", RTLD_NOW);
  if (!cupti) cupti = dlopen("libcupti.so", RTLD_NOW);
  if (!cupti) return fprintf(stderr, "kernels_alone: no libcupti\n"), 1;
  int (*callbacks)(void*, void*) = (int (*)(void*, void*))function("cuptiActivityRegisterCallbacks");
  int (*enable)(int) = (int (*)(int))function("cuptiActivityEnable");
  if (!callbacks || !enable || callbacks((void*)requested, (void*)completed)) return fprintf(stderr, "kernels_alone: CUPTI does not record\n"), 1;
  pthread_t thread;
  char what[256];
  snprintf(what, sizeof what, "%s", given ? given : "kernels");
  for (char* word = strtok(what, ","); word; word = strtok(NULL, ",")) {
    if (!strncmp(word, "late=", 5)) on_after = atoi(word + 5), pthread_create(&thread, NULL, turnOn, NULL);
    if (!strcmp(word, "kernels")) enable(kConcurrentKernel);
    if (!strcmp(word, "runtime")) chooseCalls("cuptiActivityEnableRuntimeApi", kRuntimeCalls, 1);
    if (!strcmp(word, "driver")) chooseCalls("cuptiActivityEnableDriverApi", kDriverCalls, 1);
    if (!strcmp(word, "callbacks")) subscribe();
    if (!strncmp(word, "off=", 4) || !strncmp(word, "detach=", 7)) {
      detach = *word == 'd';
      off_after = atoi(strchr(word, '=') + 1);
      pthread_create(&thread, NULL, turnOff, NULL);
    }
  }
  fprintf(stderr, "kernels_alone: %s\n", given ? given : "kernels");
  return 1;
}
