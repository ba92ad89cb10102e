// The layouts the probe reads, against CUPTI's own headers. Compiled only where those are; nothing to run.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

#include <cstddef>

#include "capture/probe/cupti_abi.hpp"

#if CUPTI_API_VERSION >= 20  // CUDA 12.2: older headers lack some of these names
namespace tracesmith::cupti {
namespace {

#define SAME(ours, field, theirs, their_field)                                                                      \
  static_assert(                                                                                                    \
      offsetof(ours, field) == offsetof(theirs, their_field) && sizeof(ours::field) == sizeof(theirs::their_field), \
      #ours "." #field " is not " #theirs "." #their_field)

// The newest kernel record of these headers; older ones are its beginnings.
SAME(KernelRecord, registers, CUpti_ActivityKernel9, registersPerThread);
SAME(KernelRecord, start, CUpti_ActivityKernel9, start);
SAME(KernelRecord, end, CUpti_ActivityKernel9, end);
SAME(KernelRecord, device, CUpti_ActivityKernel9, deviceId);
SAME(KernelRecord, context, CUpti_ActivityKernel9, contextId);
SAME(KernelRecord, stream, CUpti_ActivityKernel9, streamId);
static_assert(offsetof(KernelRecord, grid) == offsetof(CUpti_ActivityKernel9, gridX) &&
              offsetof(CUpti_ActivityKernel9, gridZ) - offsetof(CUpti_ActivityKernel9, gridX) == 8);
static_assert(offsetof(KernelRecord, block) == offsetof(CUpti_ActivityKernel9, blockX));
SAME(KernelRecord, static_shared, CUpti_ActivityKernel9, staticSharedMemory);
SAME(KernelRecord, dynamic_shared, CUpti_ActivityKernel9, dynamicSharedMemory);
SAME(KernelRecord, correlation, CUpti_ActivityKernel9, correlationId);
SAME(KernelRecord, name, CUpti_ActivityKernel9, name);
SAME(KernelRecord, graph_node, CUpti_ActivityKernel9, graphNodeId);
SAME(KernelRecord, graph, CUpti_ActivityKernel9, graphId);
// What came first is shorter: the graph's fields lie behind its end.
static_assert(sizeof(CUpti_ActivityKernel4) == 144 && offsetof(KernelRecord, graph_node) == 144);
SAME(KernelRecord, graph, CUpti_ActivityKernel5, graphId);

SAME(MemcpyRecord, copy_kind, CUpti_ActivityMemcpy5, copyKind);
SAME(MemcpyRecord, src_kind, CUpti_ActivityMemcpy5, srcKind);
SAME(MemcpyRecord, dst_kind, CUpti_ActivityMemcpy5, dstKind);
SAME(MemcpyRecord, bytes, CUpti_ActivityMemcpy5, bytes);
SAME(MemcpyRecord, start, CUpti_ActivityMemcpy5, start);
SAME(MemcpyRecord, end, CUpti_ActivityMemcpy5, end);
SAME(MemcpyRecord, device, CUpti_ActivityMemcpy5, deviceId);
SAME(MemcpyRecord, context, CUpti_ActivityMemcpy5, contextId);
SAME(MemcpyRecord, stream, CUpti_ActivityMemcpy5, streamId);
SAME(MemcpyRecord, correlation, CUpti_ActivityMemcpy5, correlationId);
SAME(MemcpyRecord, graph_node, CUpti_ActivityMemcpy5, graphNodeId);
SAME(MemcpyRecord, graph, CUpti_ActivityMemcpy5, graphId);

SAME(PeerCopyRecord, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME(PeerCopyRecord, start, CUpti_ActivityMemcpyPtoP4, start);
SAME(PeerCopyRecord, end, CUpti_ActivityMemcpyPtoP4, end);
SAME(PeerCopyRecord, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(PeerCopyRecord, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(PeerCopyRecord, dst_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(PeerCopyRecord, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);

SAME(MemsetRecord, bytes, CUpti_ActivityMemset4, bytes);
SAME(MemsetRecord, start, CUpti_ActivityMemset4, start);
SAME(MemsetRecord, end, CUpti_ActivityMemset4, end);
SAME(MemsetRecord, stream, CUpti_ActivityMemset4, streamId);
SAME(MemsetRecord, correlation, CUpti_ActivityMemset4, correlationId);
SAME(MemsetRecord, graph_node, CUpti_ActivityMemset4, graphNodeId);
SAME(MemsetRecord, graph, CUpti_ActivityMemset4, graphId);

SAME(ApiRecord, cbid, CUpti_ActivityAPI, cbid);
SAME(ApiRecord, start, CUpti_ActivityAPI, start);
SAME(ApiRecord, end, CUpti_ActivityAPI, end);
SAME(ApiRecord, thread, CUpti_ActivityAPI, threadId);
SAME(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);

SAME(SyncRecord, type, CUpti_ActivitySynchronization, type);
SAME(SyncRecord, start, CUpti_ActivitySynchronization, start);
SAME(SyncRecord, end, CUpti_ActivitySynchronization, end);
SAME(SyncRecord, correlation, CUpti_ActivitySynchronization, correlationId);
SAME(SyncRecord, context, CUpti_ActivitySynchronization, contextId);
SAME(SyncRecord, stream, CUpti_ActivitySynchronization, streamId);

SAME(OverheadRecord, overhead, CUpti_ActivityOverhead2, overheadKind);
SAME(OverheadRecord, start, CUpti_ActivityOverhead2, start);
SAME(OverheadRecord, end, CUpti_ActivityOverhead2, end);
static_assert(offsetof(OverheadRecord, object_thread) == offsetof(CUpti_ActivityOverhead2, objectId) + 4);

SAME(GraphRecord, correlation, CUpti_ActivityGraphTrace, correlationId);
SAME(GraphRecord, start, CUpti_ActivityGraphTrace, start);
SAME(GraphRecord, end, CUpti_ActivityGraphTrace, end);
SAME(GraphRecord, device, CUpti_ActivityGraphTrace, deviceId);
SAME(GraphRecord, graph, CUpti_ActivityGraphTrace, graphId);
SAME(GraphRecord, stream, CUpti_ActivityGraphTrace, streamId);

SAME(ResourceData, context, CUpti_ResourceData, context);
SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(GraphData, graph, CUpti_GraphData, graph);
SAME(GraphData, node, CUpti_GraphData, node);
SAME(GraphData, original_node, CUpti_GraphData, originalNode);
SAME(GraphData, node_type, CUpti_GraphData, nodeType);
SAME(GraphData, exec, CUpti_GraphData, graphExec);
static_assert(sizeof(GraphData) == sizeof(CUpti_GraphData) && sizeof(ResourceData) == sizeof(CUpti_ResourceData));
static_assert(kResources == CUPTI_CB_DOMAIN_RESOURCE &&
              static_cast<int>(kGraphNodeCreated) == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED &&
              static_cast<int>(kGraphNodeCloned) == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);

#define KIND(ours, theirs) \
  static_assert(static_cast<uint32_t>(ours) == static_cast<uint32_t>(CUPTI_ACTIVITY_KIND_##theirs))
KIND(kMemcpy, MEMCPY);
KIND(kMemset, MEMSET);
KIND(kDriver, DRIVER);
KIND(kRuntime, RUNTIME);
KIND(kConcurrentKernel, CONCURRENT_KERNEL);
KIND(kOverhead, OVERHEAD);
KIND(kMemcpy2, MEMCPY2);
KIND(kSynchronization, SYNCHRONIZATION);
KIND(kGraphTrace, GRAPH_TRACE);

template <size_t N>
constexpr bool in(const CallRange (&ranges)[N], uint32_t cbid) {
  for (const CallRange& r : ranges)
    if (cbid >= r.first && cbid <= r.last) return true;
  return false;
}
static_assert(in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020) &&
              in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000));
static_assert(in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel) &&
              in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx) &&
              in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel) &&
              in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch) &&
              in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2) &&
              in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async));
// Neighbours that start nothing.
static_assert(!in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020) &&
              !in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_ptsz_v7000) &&
              !in(kLaunchRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020) &&
              !in(kLaunchDriver, CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent));

static_assert(in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020) &&
              in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaThreadSynchronize_v3020) &&
              in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020) &&
              in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000) &&
              in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020) &&
              !in(kWaitRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020));
static_assert(in(kWaitDriver, CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize) &&
              in(kWaitDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize) &&
              in(kWaitDriver, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz) &&
              in(kWaitDriver, CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize));

}  // namespace
}  // namespace tracesmith::cupti
#endif
