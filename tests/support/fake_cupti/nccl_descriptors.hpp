// Descriptors of the profiler plugin's events, as the versions of its interface lay them out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tracesmith::fake {

// The head is the same but for the width of the type.
struct Head {
  uint64_t type = 0;
  void* parent = nullptr;
  int rank = 0;
};
struct CollV1 {
  Head head;
  const char* name;
  uint64_t hash, sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic;
  uint8_t channels, warps, algo, proto;
  int collnet, nvls;
};
struct CollV2 {
  Head head;
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct CollV3 {
  Head head;
  const char* name;
  uint64_t hash, sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct CollV5 {  // v4 ends before the parent
  Head head;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
  void* parent_group;
};
struct CollV7 {
  CollV5 coll;
  const char* variant;
  bool symmetric;
  uint64_t tag;
};
struct P2pV1 {
  Head head;
  const char* name;
  uint64_t hash;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};
struct P2pV2 {
  Head head;
  const char* name;
  uint64_t hash;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct P2pV5 {
  Head head;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;
};
struct ApiV5 {
  Head head;
  const char* function;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool captured;
};
struct P2pApiV5 {
  Head head;
  const char* function;
  size_t count;
  const char* datatype;
  void* stream;
  bool captured;
};
struct CeCollV6 {
  Head head;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char *datatype, *strategy;
  bool intra_batch;
  uint32_t batch_size, batches, ce_sequence;
  void* stream;
};
struct LaunchV5 {
  Head head;
  void* stream;
};
struct GroupApiV5 {
  Head head;
  bool captured;
  int depth;
};
struct ProxyOp {
  Head head;
  int32_t pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct ProxyStep {
  Head head;
  int step;
};
static_assert(sizeof(CollV1) == 120 && sizeof(CollV2) == 128 && sizeof(CollV3) == 120 && sizeof(CollV5) == 112);

inline void log(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace tracesmith::fake
