// CUPTI as this probe uses it: functions by dlsym, records by their append-only prefix (measured with CUDA 11 to 13).
// Written down here so that the probe builds without CUDA headers; tests compare it with the real ones where they
// exist.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::cupti {

using Result = int;  // 0 = success
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

enum ActivityKind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,
  kSynchronization = 38,
  kGraphTrace = 51
};

/// Callbacks when something was made: the domain, and which things of it.
constexpr uint32_t kResources = 3;
enum ResourceCallback : uint32_t { kGraphNodeCreated = 13, kGraphNodeCloned = 20 };
using Callback = void (*)(void* user, uint32_t domain, uint32_t callback, const void* data);
using Subscriber = void*;
struct ResourceData {  // what a callback is given
  void *context, *handle;
  const void* descriptor;  // here: a GraphData
};
struct GraphData {
  void *graph, *original_graph, *node, *original_node;  // handles of CUDA's
  uint32_t node_type;
  void *dependency, *exec;
};

/// Calls that start work on a GPU (launches, copies, memsets, graphs), as ranges of CUPTI's numbers, which never
/// change: with them every kernel and copy has its launch.
struct CallRange {
  uint32_t first, last;
};
constexpr CallRange kLaunchRuntime[] = {{31, 52},   {142, 145}, {160, 163}, {211, 211}, {214, 236},
                                        {243, 246}, {249, 250}, {269, 270}, {272, 272}, {311, 312},
                                        {430, 431}, {482, 485}, {505, 506}, {509, 512}};
constexpr CallRange kLaunchDriver[] = {{60, 69},   {216, 226}, {248, 254}, {276, 293}, {305, 307},
                                       {318, 321}, {397, 416}, {418, 433}, {442, 442}, {477, 478},
                                       {480, 480}, {514, 515}, {652, 653}, {776, 779}, {796, 799}};
/// Calls in which the host waits for a GPU: of a device or context, a stream, an event. Synchronous copies launch too.
constexpr CallRange kWaitRuntime[] = {{126, 126}, {131, 131}, {137, 137}, {165, 165}, {239, 239}};
constexpr CallRange kWaitDriver[] = {{17, 17}, {121, 121}, {126, 126}, {440, 440}, {800, 800}};

/// The functions used; one that a version lacks is nullptr.
struct Functions {
  Result (*ActivityRegisterCallbacks)(BufferRequested, BufferCompleted);
  Result (*ActivityEnable)(uint32_t kind);
  Result (*ActivityDisable)(uint32_t kind);
  Result (*ActivityEnableRuntimeApi)(uint32_t cbid, uint8_t enable);
  Result (*ActivityEnableDriverApi)(uint32_t cbid, uint8_t enable);
  Result (*ActivityGetNextRecord)(uint8_t* buffer, size_t valid, void** record);
  Result (*ActivityFlushAll)(uint32_t flag);
  Result (*ActivityGetNumDroppedRecords)(void* context, uint32_t stream, size_t* dropped);
  Result (*ActivityRegisterTimestampCallback)(uint64_t (*)());
  Result (*ActivitySetAttribute)(uint32_t attribute, size_t* size, void* value);
  Result (*SetThreadIdType)(uint32_t type);
  Result (*GetVersion)(uint32_t* version);
  Result (*GetCallbackName)(uint32_t domain, uint32_t cbid, const char** name);
  Result (*GetStreamIdEx)(void* context, void* stream, uint8_t per_thread, uint32_t* id);
  Result (*Subscribe)(Subscriber* subscriber, Callback callback, void* user);
  Result (*Unsubscribe)(Subscriber subscriber);
  Result (*EnableCallback)(uint32_t enable, Subscriber subscriber, uint32_t domain, uint32_t callback);
  Result (*GetGraphNodeId)(void* node, uint64_t* id);
  Result (*GetGraphId)(void* graph, uint32_t* id);
};

#pragma pack(push, 1)
struct KernelRecord {  // Kernel4 and later
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  uint64_t reserved0, queued, submitted;
  uint8_t launch_type, pad[7];
  uint64_t graph_node;  // since 11.0
  uint32_t shared_carveout;
  uint32_t graph;  // since 11.1
};
struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, pad;
  uint64_t reserved0;
  uint64_t graph_node;
  uint32_t graph;
};
struct PeerCopyRecord {
  uint32_t kind;
  uint8_t copy_kind, src_kind, dst_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, src_device, src_context, dst_device, dst_context, correlation;
};
struct MemsetRecord {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t pad;
  uint64_t reserved0;
  uint64_t graph_node;
  uint32_t graph;
};
struct ApiRecord {
  uint32_t kind, cbid;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};
struct SyncRecord {
  uint32_t kind, type;
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};
struct OverheadRecord {
  uint32_t kind, overhead, object_kind, object_process, object_thread, pad;
  uint64_t start, end;
};
struct GraphRecord {
  uint32_t kind, correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
};
#pragma pack(pop)

}  // namespace tracesmith::cupti
