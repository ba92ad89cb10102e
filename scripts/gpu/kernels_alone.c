/* An injection library for scripts/gpu/overhead.py: CUPTI records kernels and nothing else, and the records are thrown away. What this costs, no recorder of
   kernels can undercut. Loaded by CUDA_INJECTION64_PATH; KERNELS_ALONE_CUPTI is the path of libcupti where the loader does not find it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kConcurrentKernel = 10, kBytes = 128 << 10, kMost = 1024 };
static void* free_buffers[kMost];
static int free_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

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
}

/* Called by the CUDA driver. A failure is told and leaves the job alone; returning 0 would stop it. */
__attribute__((visibility("default"))) int InitializeInjection(void) {
  const char* named = getenv("KERNELS_ALONE_CUPTI");
  void* cupti = dlopen(named ? named : "libcupti.so.13", RTLD_NOW);
  if (!cupti) cupti = dlopen("libcupti.so", RTLD_NOW);
  int (*callbacks)(void*, void*) = cupti ? (int (*)(void*, void*))dlsym(cupti, "cuptiActivityRegisterCallbacks") : NULL;
  int (*enable)(int) = cupti ? (int (*)(int))dlsym(cupti, "cuptiActivityEnable") : NULL;
  if (!callbacks || !enable || callbacks((void*)requested, (void*)completed) || enable(kConcurrentKernel)) {
    fprintf(stderr, "kernels_alone: CUPTI does not record\n");
    return 1;
  }
  fprintf(stderr, "kernels_alone: recording\n");
  return 1;
}
