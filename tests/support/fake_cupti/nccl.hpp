// NCCL's side of the profiler plugin: calls its tables as NCCL does, version by version, and lets the "GPU" run the
// kernels.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda.hpp"
#include "nccl_descriptors.hpp"

namespace tracesmith::fake {

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "fake_nccl: %s\n", why.c_str());
  std::_Exit(99);
}

inline Cuda& cuda() {
  static auto* c = new Cuda;
  return *c;
}

enum : int {
  kGroup = 1,
  kColl = 2,
  kP2p = 4,
  kProxyOp = 8,
  kProxyStep = 16,
  kGroupApi = 256,
  kCollApi = 512,
  kP2pApi = 1024,
  kKernelLaunch = 2048,
  kCeColl = 4096
};

/// A collective or point-to-point operation, as a program asks for it.
struct Op {
  const char* function = "AllReduce";
  size_t count = 1000;
  const char* datatype = "ncclFloat32";
  int root = 0, peer = -1;
  uint64_t sequence = 0;
  const char *algo = "RING", *proto = "LL";
  uint8_t channels = 4;
  bool isP2p() const { return peer >= 0; }
};

struct Communicator {
  uint64_t hash = 0xc0ffee;
  int rank = 3, ranks = 8, nodes = 2;
  const char* name = "world";
  void* context = nullptr;
};

inline int indexOf(const std::vector<std::string>& list, const std::string& s) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] == s) return static_cast<int>(i);
  return 0;
}

/// The plugin of one version, called as NCCL of that version calls it.
class Nccl {
 public:
  explicit Nccl(int version) : version_(version) { load(); }

  void load() {
    library_ = ::dlopen(std::getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    if (!library_) die(std::string("no plugin: ") + ::dlerror());
    table_ = static_cast<Table*>(::dlsym(library_, ("ncclProfiler_v" + std::to_string(version_)).c_str()));
    if (!table_ || !table_->name || !*table_->name) die("no table");
  }
  void unload() { ::dlclose(library_); }

  void init(Communicator& c) {
    c.context = reinterpret_cast<void*>(0x5a5a);  // whatever was there before
    int result;
    if (version_ <= 3)
      result = reinterpret_cast<int (*)(void**, int*)>(table_->init)(&c.context, &mask_);
    else if (version_ == 4)
      result = reinterpret_cast<int (*)(void**, int*, const char*, uint64_t, int, int, int, void*)>(table_->init)(
          &c.context, &mask_, c.name, c.hash, c.nodes, c.ranks, c.rank, reinterpret_cast<void*>(log));
    else
      result = reinterpret_cast<int (*)(void**, uint64_t, int*, const char*, int, int, int, void*)>(table_->init)(
          &c.context, c.hash, &mask_, c.name, c.nodes, c.ranks, c.rank, reinterpret_cast<void*>(log));
    if (result != 0) die("init failed");
  }
  void finalize(Communicator& c) {
    if (table_->finalize(c.context) != 0) die("finalize failed");
  }
  int mask() const { return mask_; }
  std::function<void(uint32_t* stream)> on_launch;  ///< the kernel is on its stream
  /// When and where the operations of a launch are told: while a graph with operations runs, NCCL leaves that to a
  /// thread of CUDA's.
  std::function<void(const std::function<void()>& tell)> teller = [](const auto& tell) { tell(); };

  /// Starts an event if it, or something below it, is asked for. The handle holds garbage before.
  void* start(void* context, void* descriptor, int wanted, void* garbage = reinterpret_cast<void*>(0xdeadbeef)) {
    if (!(mask_ & wanted)) return nullptr;
    void* handle = garbage;
    if (table_->start(context, &handle, descriptor) != 0) die("startEvent failed");
    if (handle == garbage) die("startEvent left the handle alone");
    return handle;
  }
  void stop(void* handle) {
    if (handle && table_->stop(handle) != 0) die("stopEvent failed");
  }
  int stopRaw(void* handle) { return table_->stop(handle); }
  int state(void* handle, int state, void* args) { return table_->state(handle, state, args); }

  /// What NCCL does in ncclGroupEnd: launches one kernel with these operations, then tells of each. Returns the
  /// correlation. `captured`: into a graph; NCCL then tells of the operations when it is replayed, with the handles of
  /// these calls.
  uint32_t group(const Communicator& c, const std::vector<Op>& ops, uint32_t* stream,
                 std::vector<void*>* captured = nullptr) {
    void* api = nullptr;
    std::vector<void*> calls;
    if (version_ >= 5) {
      GroupApiV5 g{{kGroupApi}, captured != nullptr, ops.size() > 1 ? 2 : 1};  // 1: NCCL's own, for one call
      api = start(c.context, &g, kGroupApi | kCollApi | kP2pApi | kColl | kP2p | kKernelLaunch);
      for (const Op& op : ops) {
        ApiV5 a{{static_cast<uint64_t>(op.isP2p() ? kP2pApi : kCollApi), api},
                op.function,
                op.count,
                op.datatype,
                op.root,
                stream,
                captured != nullptr};
        P2pApiV5 p{a.head, a.function, a.count, a.datatype, a.stream, a.captured};
        calls.push_back(op.isP2p() ? start(c.context, &p, kP2pApi | kP2p) : start(c.context, &a, kCollApi | kColl));
        stop(calls.back());
      }
      state(api, 24, nullptr);
    }
    const uint32_t correlation = launchKernel(c, stream, api);
    if (captured)
      *captured = calls;
    else
      teller([this, c, ops, calls] { tell(c, ops, calls); });
    stop(api);
    return correlation;
  }

  uint32_t launchKernel(const Communicator& c, uint32_t* stream, void* parent = nullptr) {
    if (version_ < 5) return cuda().nextCorrelation();
    LaunchV5 l{{kKernelLaunch, parent}, stream};
    void* handle = start(c.context, &l, kKernelLaunch);
    const uint32_t correlation = cuda().launchCall();
    if (on_launch) on_launch(stream);
    stop(handle);
    return correlation;
  }

  /// The operations of a launch; also what a replay of a graph does, on a thread of CUDA's.
  void tell(const Communicator& c, const std::vector<Op>& ops, const std::vector<void*>& calls) {
    Head head{kGroup};
    void* group = start(c.context, &head, kGroup | kColl | kP2p | kProxyOp);
    if (version_ < 5 && !group) return;  // before 2.28 nothing comes without its group
    for (size_t i = 0; i < ops.size(); ++i) {
      void* parent = version_ >= 5 ? calls[i] : group;
      stop(ops[i].isP2p() ? startP2p(c, ops[i], parent) : startColl(c, ops[i], parent));
    }
    stop(group);
  }

  void* startColl(const Communicator& c, const Op& op, void* parent) {
    static const std::vector<std::string> kFunctions = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                                        "AllReduce"};
    static const std::vector<std::string> kTypes = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                                    "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                                    "ncclFloat64", "ncclBfloat16"};
    const Head head{kColl, parent, c.rank};
    const auto warps = static_cast<uint8_t>(8);
    if (version_ == 1) {
      CollV1 d{head,
               c.name,
               c.hash,
               op.sequence,
               static_cast<uint8_t>(indexOf(kFunctions, op.function)),
               nullptr,
               nullptr,
               op.count,
               op.root,
               static_cast<uint8_t>(indexOf(kTypes, op.datatype)),
               0,
               1,
               op.channels,
               warps,
               1,
               0,
               0,
               0};
      return start(c.context, &d, kColl);
    }
    if (version_ == 2) {
      CollV2 d{head,    c.name,      c.hash, op.sequence, op.function, nullptr, nullptr, op.count,
               op.root, op.datatype, 1,      op.channels, warps,       op.algo, op.proto};
      return start(c.context, &d, kColl);
    }
    if (version_ == 3) {
      CollV3 d{head,     c.name,  c.hash,      op.sequence, op.function, nullptr, nullptr,
               op.count, op.root, op.datatype, op.channels, warps,       op.algo, op.proto};
      return start(c.context, &d, kColl);
    }
    if (version_ >= 7) {
      CollV7 d{{head, op.sequence, op.function, nullptr, nullptr, op.count, op.root, op.datatype, op.channels, warps,
                op.algo, op.proto, nullptr},
               "variant",
               true,
               ~0ull};
      return start(c.context, &d, kColl);
    }
    CollV5 d{head,        op.sequence, op.function, nullptr, nullptr,  op.count, op.root,
             op.datatype, op.channels, warps,       op.algo, op.proto, nullptr};
    return start(c.context, &d, kColl);
  }

  void* startP2p(const Communicator& c, const Op& op, void* parent) {
    const Head head{kP2p, parent, c.rank};
    if (version_ == 1) {
      P2pV1 d{head,    c.name, c.hash,   static_cast<uint8_t>(std::strcmp(op.function, "Send") == 0 ? 6 : 7),
              nullptr, 7,      op.count, op.peer};
      return start(c.context, &d, kP2p);
    }
    if (version_ <= 3) {
      P2pV2 d{head, c.name, c.hash, op.function, nullptr, op.datatype, op.count, op.peer};
      return start(c.context, &d, kP2p);
    }
    P2pV5 d{head, op.function, nullptr, op.datatype, op.count, op.peer, 2, nullptr};
    return start(c.context, &d, kP2p);
  }

  void* startProxyOp(const Communicator& c, int32_t pid, uint8_t channel, int peer, bool send) {
    ProxyOp d{{kProxyOp, nullptr, c.rank}, pid, channel, peer, 4, 65536, send};
    return start(c.context, &d, kProxyOp | kProxyStep);
  }
  void* startProxyStep(const Communicator& c, void* op, int step) {
    ProxyStep d{{kProxyStep, op, c.rank}, step};
    return start(c.context, &d, kProxyStep);
  }
  /// A proxy step waits for something from now on. NCCL before 2.27 tells no size.
  void stepState(void* step, int state, size_t bytes) {
    if (step && table_->state(step, state, version_ >= 4 ? &bytes : nullptr) != 0) die("recordEventState failed");
  }

 private:
  struct Table {
    const char* name;
    void* init;
    int (*start)(void*, void**, void*);
    int (*stop)(void*);
    int (*state)(void*, int, void*);
    int (*finalize)(void*);
  };
  int version_;
  void* library_ = nullptr;
  Table* table_ = nullptr;
  int mask_ = 0x7fffffff;
};

/// A kernel of NCCL's that ran on a stream, after it was launched.
inline void runKernel(const char* name, uint32_t stream, uint32_t correlation) {
  const uint64_t start = cuda().now();
  while (cuda().now() < start + 2) {
  }
  cuda().kernel(name, stream, start, start + 2, correlation);
}

inline uint32_t* stream(uint32_t id) {
  static uint32_t streams[64];
  streams[id] = id;
  return &streams[id];
}

}  // namespace tracesmith::fake
