// NCCL's profiler plugin interface, versions 1 to 7, as far as the probe reads it: layouts by offset, checked against
// NCCL's headers. Strings NCCL passes are constants of libnccl.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::nccl {

enum EventType : uint64_t {
  kGroup = 1 << 0,
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyCtrl = 1 << 5,
  kKernelCh = 1 << 6,
  kNetPlugin = 1 << 7,
  kGroupApi = 1 << 8,
  kCollApi = 1 << 9,
  kP2pApi = 1 << 10,
  kKernelLaunch = 1 << 11,
  kCeColl = 1 << 12  // since v6: a collective that the copy engines do
};

/// What a proxy step waits for from now on, until the next state or its end.
enum ProxyStepState : int {
  kSendGpuWait = 8,
  kSendWait = 9,
  kRecvWait = 10,
  kRecvFlushWait = 11,
  kRecvGpuWait = 12,
  kSendPeerWait = 20,  // since v4
};
/// What comes with it, since v4; older versions report nothing.
struct ProxyStepArgs {
  size_t bytes;
};

using Log = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using InitV1 = int (*)(void** context, int* mask);
using InitV4 = int (*)(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                       Log log);
using InitV5 = int (*)(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks, int rank,
                       Log log);

/// The table each version exports; init's signature differs.
struct Plugin {
  const char* name;
  void* init;
  int (*start_event)(void* context, void** handle, void* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* args);
  int (*finalize)(void* context);
};

// v5 to v7 (v4 has the same members, one word less of head and no parent group at the end; v7 has more at the end).
struct CollV4 {
  uint64_t sequence;
  const char* function;
  const void *send, *receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct P2pV4 {
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct ProxyOp {
  int32_t pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct Descriptor {
  uint64_t type;  // v1–v4: only the first byte
  void* parent;
  int rank;
  union {
    CollV4 coll;
    P2pV4 p2p;
    ProxyOp proxy_op;
    struct {
      int step;
    } proxy_step;
    struct {
      void* stream;
    } kernel_launch;
    struct {
      const char* function;
      size_t count;
      const char* datatype;
      int root;
      void* stream;
      bool graph_captured;
    } coll_api;
    struct {
      const char* function;
      size_t count;
      const char* datatype;
      void* stream;
      bool graph_captured;
    } p2p_api;
    struct {
      bool graph_captured;
      int depth;
    } group_api;
    struct {  // since v6
      uint64_t sequence;
      const char* function;
      const void *send, *receive;
      size_t count;
      int root;
      const char *datatype, *strategy;
      bool intra_batch;
      uint32_t batch_size, batches, ce_sequence;
      void* stream;
    } ce_coll;
  };
};
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16 &&
              offsetof(Descriptor, coll) == 24);
static_assert(offsetof(Descriptor, coll.count) == 56 && offsetof(Descriptor, coll.datatype) == 72 &&
              offsetof(Descriptor, coll.channels) == 80 && offsetof(Descriptor, coll.algo) == 88 &&
              offsetof(Descriptor, coll.proto) == 96);
static_assert(offsetof(Descriptor, coll_api.stream) == 56 && offsetof(Descriptor, coll_api.graph_captured) == 64 &&
              offsetof(Descriptor, p2p_api.stream) == 48 && offsetof(Descriptor, p2p_api.graph_captured) == 56 &&
              offsetof(Descriptor, group_api.graph_captured) == 24 && offsetof(Descriptor, ce_coll.root) == 64 &&
              offsetof(Descriptor, ce_coll.batch_size) == 92 && offsetof(Descriptor, ce_coll.stream) == 104);

/// A collective of v7 as a whole. The members that v4 lacks are not recorded; the others are where they were.
struct CollV7 {
  CollV4 coll;
  void* parent_group;
  const char* kernel_variant;
  bool symmetric;
  uint64_t user_tag;  // 0: none
};
constexpr size_t kHeadBytes = 24;
static_assert(kHeadBytes + offsetof(CollV7, parent_group) == 104 && kHeadBytes + offsetof(CollV7, symmetric) == 120 &&
              kHeadBytes + offsetof(CollV7, user_tag) == 128 && kHeadBytes + sizeof(CollV7) == 136);

// v1–v3 put name and communicator hash into the descriptor; in v1 names are numbers.
struct CollV1 {
  const char* name;
  uint64_t hash, sequence;
  uint8_t function;
  const void *send, *receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic;
  uint8_t channels, warps, algo, proto;
  int collnet, nvls;
};
struct CollV2 {
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void *send, *receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct CollV3 {
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void *send, *receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct P2pV1 {
  const char* name;
  uint64_t hash;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct P2pV2 {
  const char* name;
  uint64_t hash;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
// Whole descriptors have 120, 128, 120 and 104 bytes; 24 of them are the head.
static_assert(sizeof(CollV1) == 96 && sizeof(CollV2) == 104 && sizeof(CollV3) == 96 && sizeof(CollV4) == 80);

/// What v1's numbers stand for; datatypes, algorithms and protocols are in the order of
/// the lists of nccl_names.hpp.
constexpr const char* kFunctionsV1[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};

}  // namespace tracesmith::nccl
