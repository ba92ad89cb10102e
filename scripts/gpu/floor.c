/* Measures what CUPTI costs by itself: kernel records go into buffers that are discarded. For scripts/gpu/training.py floor. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kKernels = 10, kBytes = 1 << 20, kMost = 1024 };
static int (*enable)(int), (*disable)(int), (*flush)(uint32_t);
static void* free_buffers[kMost];
static int free_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int recording, fetching;

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
  if (free_count < kMost) free_buffers[free_count++] = buffer;
  pthread_mutex_unlock(&mutex);
}

static void* fetch(void* unused) {
  for (;;) {
    usleep(100000);
    if (fetching && recording) flush(0);
  }
  return unused;
}

/* FLOOR_ATTRIBUTES="8=1,5=1": CUpti_ActivityAttribute and value; sizes of buffers and pools are 8 bytes, switches 1. */
static void attributes(void* lib) {
  int (*set)(int, size_t*, void*) = (int (*)(int, size_t*, void*))dlsym(lib, "cuptiActivitySetAttribute");
  const char* text = getenv("FLOOR_ATTRIBUTES");
  while (set && text && *text) {
    char* end;
    int attribute = (int)strtol(text, &end, 10);
    uint64_t value = strtoull(*end ? end + 1 : end, &end, 10);
    size_t bytes = attribute == 0 || attribute == 2 || attribute == 6 ? 8 : 1;
    fprintf(stderr, "attribute %d = %llu: result %d\n", attribute, (unsigned long long)value, set(attribute, &bytes, &value));
    text = *end ? end + 1 : end;
  }
}

/* Returns 0 if libcupti has the functions that are needed. */
int floor_begin(const char* libcupti) {
  void* lib = dlopen(libcupti, RTLD_NOW);
  int (*callbacks)(void*, void*) = lib ? (int (*)(void*, void*))dlsym(lib, "cuptiActivityRegisterCallbacks") : NULL;
  if (!callbacks) return -1;
  enable = (int (*)(int))dlsym(lib, "cuptiActivityEnable");
  disable = (int (*)(int))dlsym(lib, "cuptiActivityDisable");
  flush = (int (*)(uint32_t))dlsym(lib, "cuptiActivityFlushAll");
  attributes(lib);
  pthread_t thread;
  return callbacks((void*)requested, (void*)completed) || pthread_create(&thread, NULL, fetch, NULL);
}

/* With `often`, buffers are handed over every 100 ms, otherwise when they are full. */
void floor_switch(int on, int often) {
  recording = on;
  fetching = often;
  (on ? enable : disable)(kKernels);
}
