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

/* An operation of several processes that uses no GPU (gloo, MPI), as TraceSmith's Python package reports it. */
typedef struct tracesmith_operation {
  const char* op;      /* "all_reduce" */
  const char* group;   /* the same on all its ranks */
  const char* backend; /* "gloo" */
  const char* dtype;   /* NULL: not known */
  int64_t sequence;    /* counts the operations of the group; of a send or receive those with this peer; -1: not known */
  int64_t bytes;       /* -1: not known */
  int32_t rank, ranks; /* in the group, of the group; -1, 0: not known */
  int32_t peer;        /* of a send or receive; root of a rooted operation; -1: none */
} tracesmith_operation;

/* What the probe offers; newer probes append: a function is there if `size` reaches behind it.
 * Times are ns of CLOCK_MONOTONIC_RAW. */
typedef struct tracesmith_api {
  uint32_t version; /* 1 */
  uint32_t size;    /* sizeof this struct in the probe */
  void (*range_begin)(const char* name);
  void (*range_end)(void);
  void (*step_begin)(int64_t step);
  void (*step_end)(void);
  void (*counter)(const char* name, double value);
  void (*metadata)(const char* key, const char* value); /* key "role": what the process is for */
  /* For hooks. A range of this thread that is over; a moment. */
  void (*range_at)(const char* name, uint64_t start_ns, uint64_t end_ns);
  void (*mark)(const char* name);
  /* A step that was found, not marked: it began at start_ns, where the one before it ended, unless the program marks its
   * own. -1: the last one was none. Returns whether the program does not mark them. */
  int (*found_step)(int64_t step, uint64_t start_ns);
  /* Once when it begins (end_ns is 0), and once more when it has ended; with no length if it was none after all. */
  void (*operation)(const tracesmith_operation* operation, uint64_t start_ns, uint64_t end_ns);
  /* A process group this process is in; `ranks`: a JSON array of their global ranks, or NULL. */
  void (*process_group)(const char* name, const char* description, const char* backend, int32_t size,
                        const char* ranks);
  /* Where the environment does not tell; -1: not known. */
  void (*set_rank)(int32_t rank, int32_t world_size, int32_t local_rank);
  /* A counter's value at a time (0: now). `series`: which one of several, or NULL. `step`: which it belongs to; -1: the
   * one of that time. */
  void (*counter_at)(const char* name, const char* series, double value, uint64_t at_ns, int64_t step);
  /* A CUDA graph is about to be captured (1), or it has been, and was instantiated (0). Returns whether its nodes can be
   * told what they are captured from. */
  int (*graph_capture)(int begins);
  /* What the nodes belong to that this thread captures from now on, NULL: nothing. `modules`: the outermost first, with
   * " > " between; `shapes`: those of the operator's tensors. */
  void (*graph_names)(const char* modules, int backward, const char* op, const char* shapes);
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
