/* TraceSmith's C API for other languages: objects that are made by name and called by name, with JSON in and out, and
 * results of SQL as Arrow streams. The Python package is written over it.
 *
 * libtracesmith_c.so has Trace, Recorder, GPUTopology, MultiGPUProfiler, NCCLTracker, GPUClusteringManager,
 * DeviceSelector, WorkloadDistributor, BalanceCoordinator, BalanceRank and BalancePlanner. libtracesmith_c_cluster.so has
 * the same functions for NodeAggregator, ClusterMaster and TimeSync, which need gRPC.
 *
 *   tracesmith_object* trace = tracesmith_new("Trace", "{\"path\":\"job.sbt\"}");
 *   if (!trace) puts(tracesmith_last_error());
 *   char* answer = tracesmith_call(trace, "analyze", "[]");
 *   ...
 *   tracesmith_free(answer);
 *   tracesmith_delete(trace);
 *
 * Texts are UTF-8. A function that fails returns NULL or false; tracesmith_last_error() then has the reason. Nothing is
 * thrown. Any thread may call; an object takes one call at a time, and others wait, except for tracesmith_interrupt().
 */
#ifndef TRACESMITH_C_API_H
#define TRACESMITH_C_API_H

#include <stdbool.h>

#define TRACESMITH_C __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct ArrowArrayStream; /* https://arrow.apache.org/docs/format/CStreamInterface.html */
typedef struct tracesmith_object tracesmith_object;

/* Why the last call of this thread failed. Valid until its next call. */
TRACESMITH_C const char* tracesmith_last_error(void);
/* What kind of failure it was: "invalid", "not_found", "unsupported", ...; "unknown" if an exception ended the call. */
TRACESMITH_C const char* tracesmith_last_error_kind(void);

/* What this library has, as JSON: {"version", "tables": [{name, doc, columns}], "classes": {name: {config, methods}},
 * "structs": {name: {field: {type, value it begins with}}}}. */
TRACESMITH_C char* tracesmith_describe(void);

/* An object of the class. `config` is a JSON object with some of the fields of its configuration; NULL: none. */
TRACESMITH_C tracesmith_object* tracesmith_new(const char* class_name, const char* config);
/* Calls a method. `arguments` is a JSON array; those at the end may be left out. The answer is JSON. */
TRACESMITH_C char* tracesmith_call(tracesmith_object* object, const char* method, const char* arguments);
TRACESMITH_C void tracesmith_delete(tracesmith_object* object);

/* Runs one statement of SQL over a Trace. The stream may outlive the object. */
TRACESMITH_C bool tracesmith_query(tracesmith_object* trace, const char* sql, struct ArrowArrayStream* out);
/* Makes a running query of a Trace fail, from another thread. */
TRACESMITH_C void tracesmith_interrupt(tracesmith_object* trace);

/* From now on `callback` gets what the object tells (a tracker: operations that ended; a master: events), as JSON, in a
 * thread of the object's. NULL: nobody. */
TRACESMITH_C bool tracesmith_listen(tracesmith_object* object, void (*callback)(void* context, const char* json),
                                    void* context);

/* Frees what a function above returned. */
TRACESMITH_C void tracesmith_free(char* text);

#ifdef __cplusplus
}
#endif
#endif
