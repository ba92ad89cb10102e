/* TraceSmith's C API for programs: mark ranges, steps and counters in your own code.
 *
 * This header is all you need to vendor: it links nothing. Under `tracesmith run` the calls reach the probe; without
 * it each call is one load and one branch. Any thread may call.
 *
 *   tracesmith_step_begin(step);
 *   tracesmith_range_begin("load batch"); ... tracesmith_range_end();
 *   tracesmith_counter("loss", loss);
 *   tracesmith_step_end();
 */
#ifndef TRACESMITH_H
#define TRACESMITH_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the probe offers; newer probes append. */
typedef struct tracesmith_api {
  uint32_t version; /* 1 */
  uint32_t size;    /* sizeof this struct in the probe */
  void (*range_begin)(const char* name);
  void (*range_end)(void);
  void (*step_begin)(int64_t step);
  void (*step_end)(void);
  void (*counter)(const char* name, double value);
  void (*metadata)(const char* key, const char* value);
} tracesmith_api;

/* The probe's table, or NULL when the program does not run under the probe. Looked up once. */
static inline const tracesmith_api* tracesmith_get(void) {
  static const tracesmith_api* api;
  static int asked;
  if (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
    const tracesmith_api* (*get)(void) = NULL;
    void* symbol = dlsym(NULL, "tracesmith_probe_api"); /* NULL is RTLD_DEFAULT: preloaded */
    if (!symbol) {
      /* Loaded by CUDA or NCCL: not in the global scope, but loaded. */
      extern char** environ;
      char** e;
      for (e = environ; e && *e && !symbol; ++e) {
        const char *key = "TRACESMITH_PROBE=", *s = *e;
        while (*key && *key == *s) ++key, ++s;
        if (!*key) {
          void* handle = dlopen(s, RTLD_NOW | RTLD_LOCAL);
          if (handle) symbol = dlsym(handle, "tracesmith_probe_api");
        }
      }
    }
    if (symbol) {
      *(void**)&get = symbol;
      __atomic_store_n(&api, get(), __ATOMIC_RELAXED);
    }
    __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&api, __ATOMIC_RELAXED);
}

static inline void tracesmith_range_begin(const char* name) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->range_begin(name);
}
static inline void tracesmith_range_end(void) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->range_end();
}
static inline void tracesmith_step_begin(int64_t step) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->step_begin(step);
}
static inline void tracesmith_step_end(void) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->step_end();
}
static inline void tracesmith_counter(const char* name, double value) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->counter(name, value);
}
static inline void tracesmith_metadata(const char* key, const char* value) {
  const tracesmith_api* a = tracesmith_get();
  if (a) a->metadata(key, value);
}

#ifdef __cplusplus
}
#endif
#endif
