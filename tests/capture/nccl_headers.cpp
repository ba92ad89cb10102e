// What the probe knows of NCCL by heart, against NCCL's own headers: nccl.h, and those that its source has for authors
// of profiler plugins (plugins/profiler/example/nccl). Compiled only where they are (scripts/gpu-verify); nothing to
// run.
#if __has_include(<nccl.h>)
#include <nccl.h>
#elif __has_include(<profiler.h>)
#include "err.h"  // ncclResult_t once more
#endif
#if __has_include(<profiler.h>)
#include <sys/types.h>
using ncclPid_t = pid_t;  // some versions have this name for it
#include <profiler.h>
#if __has_include(<profiler_v7.h>) && !defined(PROFILER_V7_H_)
using ncclProfilerEventState_v7_t = ncclProfilerEventState_t;
#include <profiler_v7.h>
#endif
#endif

#include <cstddef>
#include <iterator>
#include <string_view>

#include "capture/probe/nccl_abi.hpp"
#include "model/ring/nccl_names.hpp"

namespace tracesmith::nccl {
namespace {

#ifdef NCCL_VERSION_CODE
static_assert(sizeof(ncclResult_t) == sizeof(int) && ncclSuccess == 0);
#define TYPE(theirs, bytes) \
  static_assert(std::string_view(kDatatypes[theirs + 1]) == #theirs && kDatatypeBytes[theirs + 1] == bytes)
TYPE(ncclInt8, 1);
TYPE(ncclUint8, 1);
TYPE(ncclInt32, 4);
TYPE(ncclUint32, 4);
TYPE(ncclInt64, 8);
TYPE(ncclUint64, 8);
TYPE(ncclFloat16, 2);
TYPE(ncclFloat32, 4);
TYPE(ncclFloat64, 8);
TYPE(ncclBfloat16, 2);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
TYPE(ncclFloat8e4m3, 1);
TYPE(ncclFloat8e5m2, 1);
static_assert(ncclNumTypes + 1 == std::size(kDatatypes), "NCCL has a new type");
#endif
#endif

#ifdef PROFILER_H_
#define SAME(ours, field, theirs, their_field)                                                                      \
  static_assert(                                                                                                    \
      offsetof(ours, field) == offsetof(theirs, their_field) && sizeof(ours::field) == sizeof(theirs::their_field), \
      #ours "." #field " is not " #theirs "." #their_field)
/// A member of a part of the union, which begins after the head.
#define PART(ours, field, theirs, their_field)                                       \
  static_assert(kHeadBytes + offsetof(ours, field) == offsetof(theirs, their_field), \
                #ours "." #field " is not " #theirs "." #their_field)
#define VALUE(ours, theirs) static_assert(static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs))

VALUE(kGroup, ncclProfileGroup);
VALUE(kColl, ncclProfileColl);
VALUE(kP2p, ncclProfileP2p);
VALUE(kProxyOp, ncclProfileProxyOp);
VALUE(kProxyStep, ncclProfileProxyStep);
VALUE(kProxyCtrl, ncclProfileProxyCtrl);
VALUE(kSendGpuWait, ncclProfilerProxyStepSendGPUWait);
VALUE(kSendWait, ncclProfilerProxyStepSendWait);
VALUE(kRecvWait, ncclProfilerProxyStepRecvWait);
VALUE(kRecvFlushWait, ncclProfilerProxyStepRecvFlushWait);
VALUE(kRecvGpuWait, ncclProfilerProxyStepRecvGPUWait);

/// What every version has in the same place: the head, the table of functions, the parts of the proxy.
#define VERSION(n)                                                                              \
  static_assert(offsetof(Descriptor, type) == offsetof(ncclProfilerEventDescr_v##n##_t, type)); \
  SAME(Descriptor, parent, ncclProfilerEventDescr_v##n##_t, parentObj);                         \
  SAME(Descriptor, rank, ncclProfilerEventDescr_v##n##_t, rank);                                \
  static_assert(offsetof(ncclProfilerEventDescr_v##n##_t, coll) == kHeadBytes);                 \
  SAME(Descriptor, proxy_op.channel, ncclProfilerEventDescr_v##n##_t, proxyOp.channelId);       \
  SAME(Descriptor, proxy_op.peer, ncclProfilerEventDescr_v##n##_t, proxyOp.peer);               \
  SAME(Descriptor, proxy_op.is_send, ncclProfilerEventDescr_v##n##_t, proxyOp.isSend);          \
  SAME(Descriptor, proxy_step.step, ncclProfilerEventDescr_v##n##_t, proxyStep.step);           \
  SAME(Plugin, init, ncclProfiler_v##n##_t, init);                                              \
  SAME(Plugin, start_event, ncclProfiler_v##n##_t, startEvent);                                 \
  SAME(Plugin, stop_event, ncclProfiler_v##n##_t, stopEvent);                                   \
  SAME(Plugin, record_event_state, ncclProfiler_v##n##_t, recordEventState);                    \
  SAME(Plugin, finalize, ncclProfiler_v##n##_t, finalize);                                      \
  static_assert(sizeof(Plugin) == sizeof(ncclProfiler_v##n##_t))

/// What an operation has since names are texts.
#define OPERATION(collective, p2p_part, n)                                     \
  PART(collective, sequence, ncclProfilerEventDescr_v##n##_t, coll.seqNumber); \
  PART(collective, function, ncclProfilerEventDescr_v##n##_t, coll.func);      \
  PART(collective, count, ncclProfilerEventDescr_v##n##_t, coll.count);        \
  PART(collective, root, ncclProfilerEventDescr_v##n##_t, coll.root);          \
  PART(collective, datatype, ncclProfilerEventDescr_v##n##_t, coll.datatype);  \
  PART(collective, algo, ncclProfilerEventDescr_v##n##_t, coll.algo);          \
  PART(collective, proto, ncclProfilerEventDescr_v##n##_t, coll.proto);        \
  PART(p2p_part, function, ncclProfilerEventDescr_v##n##_t, p2p.func);         \
  PART(p2p_part, datatype, ncclProfilerEventDescr_v##n##_t, p2p.datatype);     \
  PART(p2p_part, count, ncclProfilerEventDescr_v##n##_t, p2p.count);           \
  PART(p2p_part, peer, ncclProfilerEventDescr_v##n##_t, p2p.peer)

VERSION(1);
OPERATION(CollV1, P2pV1, 1);
PART(CollV1, channels, ncclProfilerEventDescr_v1_t, coll.nMaxChannels);
PART(CollV1, hash, ncclProfilerEventDescr_v1_t, coll.commHash);
VERSION(2);
OPERATION(CollV2, P2pV2, 2);
PART(CollV2, channels, ncclProfilerEventDescr_v2_t, coll.nMaxChannels);
PART(CollV2, hash, ncclProfilerEventDescr_v2_t, coll.commHash);
VERSION(3);
OPERATION(CollV3, P2pV2, 3);
PART(CollV3, channels, ncclProfilerEventDescr_v3_t, coll.nMaxChannels);
PART(CollV3, hash, ncclProfilerEventDescr_v3_t, coll.commHash);
VERSION(4);
OPERATION(CollV4, P2pV4, 4);
PART(CollV4, channels, ncclProfilerEventDescr_v4_t, coll.nChannels);
VALUE(kSendPeerWait, ncclProfilerProxyStepSendPeerWait_v4);
static_assert(offsetof(ProxyStepArgs, bytes) == offsetof(ncclProfilerEventStateArgs_v4_t, proxyStep.transSize));

/// What the calls of the program tell, since version 5.
#define CALLS(n)                                                                                       \
  VERSION(n);                                                                                          \
  OPERATION(CollV4, P2pV4, n);                                                                         \
  SAME(Descriptor, type, ncclProfilerEventDescr_v##n##_t, type);                                       \
  SAME(Descriptor, coll_api.function, ncclProfilerEventDescr_v##n##_t, collApi.func);                  \
  SAME(Descriptor, coll_api.stream, ncclProfilerEventDescr_v##n##_t, collApi.stream);                  \
  SAME(Descriptor, coll_api.graph_captured, ncclProfilerEventDescr_v##n##_t, collApi.graphCaptured);   \
  SAME(Descriptor, p2p_api.stream, ncclProfilerEventDescr_v##n##_t, p2pApi.stream);                    \
  SAME(Descriptor, p2p_api.graph_captured, ncclProfilerEventDescr_v##n##_t, p2pApi.graphCaptured);     \
  SAME(Descriptor, group_api.graph_captured, ncclProfilerEventDescr_v##n##_t, groupApi.graphCaptured); \
  SAME(Descriptor, group_api.depth, ncclProfilerEventDescr_v##n##_t, groupApi.groupDepth);             \
  SAME(Descriptor, kernel_launch.stream, ncclProfilerEventDescr_v##n##_t, kernelLaunch.stream)
#ifdef PROFILER_V5_H_
CALLS(5);
VALUE(kGroupApi, ncclProfileGroupApi);
VALUE(kCollApi, ncclProfileCollApi);
VALUE(kP2pApi, ncclProfileP2pApi);
VALUE(kKernelLaunch, ncclProfileKernelLaunch);
#endif

#define COPY_ENGINES(n)                                                                    \
  CALLS(n);                                                                                \
  SAME(Descriptor, ce_coll.sequence, ncclProfilerEventDescr_v##n##_t, ceColl.seqNumber);   \
  SAME(Descriptor, ce_coll.count, ncclProfilerEventDescr_v##n##_t, ceColl.count);          \
  SAME(Descriptor, ce_coll.root, ncclProfilerEventDescr_v##n##_t, ceColl.root);            \
  SAME(Descriptor, ce_coll.datatype, ncclProfilerEventDescr_v##n##_t, ceColl.datatype);    \
  SAME(Descriptor, ce_coll.batch_size, ncclProfilerEventDescr_v##n##_t, ceColl.batchSize); \
  SAME(Descriptor, ce_coll.stream, ncclProfilerEventDescr_v##n##_t, ceColl.stream)
#ifdef PROFILER_V6_H_
COPY_ENGINES(6);
VALUE(kCeColl, ncclProfileCeColl);
#endif
#ifdef PROFILER_V7_H_
COPY_ENGINES(7);
PART(CollV7, parent_group, ncclProfilerEventDescr_v7_t, coll.parentGroup);
PART(CollV7, kernel_variant, ncclProfilerEventDescr_v7_t, coll.kernelVariant);
PART(CollV7, symmetric, ncclProfilerEventDescr_v7_t, coll.isSymColl);
PART(CollV7, user_tag, ncclProfilerEventDescr_v7_t, coll.userTag);
static_assert(kHeadBytes + sizeof(CollV7) <= sizeof(ncclProfilerEventDescr_v7_t));
static_assert(offsetof(ProxyStepArgs, bytes) == offsetof(ncclProfilerEventStateArgs_v7_t, proxyStep.transSize));
#endif
#endif

}  // namespace
}  // namespace tracesmith::nccl
