// A program that uses NCCL, without NCCL: calls the profiler plugin's tables as NCCL does, version by version, and lets
// the "GPU" run the kernels.
//   fake_nccl SCENARIO [VERSION]
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda.hpp"

namespace {

using namespace tracesmith::fake;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "fake_nccl: %s\n", why.c_str());
  std::_Exit(99);
}

Cuda& cuda() {
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
  kKernelLaunch = 2048
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

int indexOf(const std::vector<std::string>& list, const std::string& s) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] == s) return static_cast<int>(i);
  return 0;
}

// Descriptors, as the versions of the plugin interface lay them out. The head is the same but for the width of the
// type.
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
static_assert(sizeof(CollV1) == 120 && sizeof(CollV2) == 128 && sizeof(CollV3) == 120 && sizeof(CollV5) == 112);

void log(int, unsigned long, const char*, int, const char*, ...) {}

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
  /// correlation.
  uint32_t group(const Communicator& c, const std::vector<Op>& ops, uint32_t* stream) {
    void* api = nullptr;
    if (version_ >= 5) {
      GroupApiV5 g{{kGroupApi}, false, 1};
      api = start(c.context, &g, kGroupApi | kCollApi | kP2pApi | kColl | kP2p | kKernelLaunch);
      for (const Op& op : ops) {
        ApiV5 a{{static_cast<uint64_t>(op.isP2p() ? kP2pApi : kCollApi), api},
                op.function,
                op.count,
                op.datatype,
                op.root,
                stream,
                false};
        stop(start(c.context, &a, op.isP2p() ? kP2pApi | kP2p : kCollApi | kColl));
      }
      state(api, 24, nullptr);
    }
    const uint32_t correlation = launchKernel(c, stream, api);
    tell(c, ops, api);
    stop(api);
    return correlation;
  }

  uint32_t launchKernel(const Communicator& c, uint32_t* stream, void* parent = nullptr) {
    if (version_ < 5) return cuda().nextCorrelation();
    LaunchV5 l{{kKernelLaunch, parent}, stream};
    void* handle = start(c.context, &l, kKernelLaunch);
    const uint32_t correlation = cuda().nextCorrelation();
    stop(handle);
    return correlation;
  }

  /// The operations of a launch; also what a replay of a graph does, on a thread of CUDA's.
  void tell(const Communicator& c, const std::vector<Op>& ops, void* parent) {
    Head head{kGroup};
    void* group = start(c.context, &head, kGroup | kColl | kP2p | kProxyOp);
    if (version_ < 5 && !group) return;  // before 2.28 nothing comes without its group
    for (const Op& op : ops)
      stop(op.isP2p() ? startP2p(c, op, version_ >= 5 ? parent : group)
                      : startColl(c, op, version_ >= 5 ? parent : group));
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
    return start(c.context, &d, kProxyOp);
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
void runKernel(const char* name, uint32_t stream, uint32_t correlation) {
  const uint64_t start = cuda().now();
  while (cuda().now() < start + 2) {
  }
  cuda().kernel(name, stream, start, start + 2, correlation);
}

uint32_t g_streams[64];
uint32_t* stream(uint32_t id) {
  g_streams[id] = id;
  return &g_streams[id];
}

// ---- scenarios

/// One of everything, each with its kernel.
void basic(int version) {
  Nccl nccl(version);
  Communicator world;
  nccl.init(world);
  const std::vector<std::pair<Op, const char*>> ops = {
      {{.function = "AllReduce", .count = 1000, .datatype = "ncclFloat32", .sequence = 0},
       "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
      {{.function = "AllGather",
        .count = 4096,
        .datatype = "ncclInt8",
        .sequence = 0,
        .algo = "TREE",
        .proto = "SIMPLE"},
       "ncclDevKernel_AllGather_RING_LL"},
      {{.function = "Broadcast", .count = 512, .datatype = "ncclInt8", .root = 2, .sequence = 0},
       "ncclDevKernel_Broadcast_RING_LL"},
      {{.function = "ReduceScatter", .count = 10, .datatype = "ncclBfloat16", .sequence = 0},
       "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"},
      {{.function = "Reduce", .count = 20, .datatype = "ncclFloat64", .root = 1, .sequence = 0},
       "ncclDevKernel_Reduce_Sum_f64_RING_LL"},
      {{.function = "AllReduce", .count = 77, .datatype = "Unknown", .sequence = 1},
       "ncclDevKernel_AllReduce_Sum_u8_RING_LL"},
      {{.function = "Send", .count = 100, .peer = 5}, "ncclDevKernel_SendRecv"},
      {{.function = "Recv", .count = 200, .peer = 6}, "ncclDevKernel_SendRecv"}};
  for (const auto& [op, kernel] : ops) {
    const uint32_t correlation = nccl.group(world, {op}, stream(20));
    runKernel(kernel, 20, correlation);
  }
  nccl.finalize(world);
}

/// Several operations in one launch share its kernel; launches on two streams keep apart; kernels run long after.
void grouped() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  std::vector<std::pair<uint32_t, uint32_t>> launched;
  for (uint64_t i = 0; i < 10; ++i) {
    const uint32_t on = 20 + i % 2;
    const uint32_t correlation = nccl.group(world,
                                            {{.count = i + 1, .sequence = 3 * i},
                                             {.count = i + 1, .sequence = 3 * i + 1},
                                             {.count = i + 1, .sequence = 3 * i + 2}},
                                            stream(on));
    launched.emplace_back(on, correlation);
  }
  for (const auto& [on, correlation] : launched) {
    cuda().launch("between", on);
    runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", on, correlation);
  }
}

/// Many threads on one context, each with its own stream, while a proxy thread works and the GPU falls behind.
void threads() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  std::vector<std::thread> all;
  std::atomic<bool> stop{false};
  std::thread proxy([&] {
    while (!stop) {
      void* a = nccl.startProxyOp(world, ::getpid(), 1, 2, true);
      void* b = nccl.startProxyOp(world, ::getpid(), 2, 3, false);
      nccl.stop(a);
      nccl.stop(b);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (uint32_t t = 0; t < 6; ++t)
    all.emplace_back([&, t] {
      std::vector<uint32_t> waiting;
      for (uint64_t i = 0; i < 200; ++i) {
        waiting.push_back(nccl.group(world, {{.count = 1000 * (t + 1) + i, .sequence = i}}, stream(20 + t)));
        if (waiting.size() == 8)
          for (uint32_t correlation : std::exchange(waiting, {}))
            runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20 + t, correlation);
      }
    });
  for (std::thread& t : all) t.join();
  stop = true;
  proxy.join();
}

/// Handles that come back when they should not.
void stale() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  auto launch = [&](uint32_t on) {
    LaunchV5 l{{kKernelLaunch}, stream(on)};
    return nccl.start(world.context, &l, kKernelLaunch);
  };
  void* first = launch(20);
  nccl.stop(first);
  std::vector<void*> open;
  for (int i = 0; i < 256; ++i) open.push_back(launch(21));  // all slots, whoever had them before
  for (int i = 0; i < 3; ++i) nccl.stop(first);
  LaunchV5 l{{kKernelLaunch}, stream(21)};
  if (nccl.start(world.context, &l, kKernelLaunch) != nullptr) die("a stale handle ended another launch");
  for (void* handle : open) nccl.stop(handle);
  for (void* handle : open) nccl.stop(handle);
  // A launch whose handle is still right after all that.
  const uint32_t correlation = nccl.group(world, {{.count = 5, .sequence = 42}}, stream(22));
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 22, correlation);
  // Nonsense.
  for (uint64_t garbage : {1ull, 2ull, 3ull, 0xffffffffffffffffull, 0xdeadbeefull, 0x7fffffffffffull, 0x10002ull,
                           0x3ffffull, 0xfffffffffffffffeull})
    if (nccl.stopRaw(reinterpret_cast<void*>(garbage)) != 0 ||
        nccl.state(reinterpret_cast<void*>(garbage), 22, nullptr) != 0)
      die("nonsense was refused");
  if (nccl.stopRaw(nullptr) != 0) die("NULL was refused");
  // No context (init failed), no parent.
  Communicator none;
  nccl.group(none, {{.count = 6}}, stream(23));
  nccl.startProxyOp(none, ::getpid(), 0, 0, true);
  CollV5 coll{{kColl, reinterpret_cast<void*>(0x1234), 3},
              43,
              "AllReduce",
              nullptr,
              nullptr,
              7,
              0,
              "ncclInt32",
              1,
              1,
              nullptr,
              nullptr,
              nullptr};
  nccl.stop(nccl.start(world.context, &coll, kColl));
}

/// Replays of a graph: the operations come alone, on a thread of CUDA's, with the parents of the capture.
void graph() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  nccl.group(world, {{.count = 1, .sequence = 0}}, stream(20));  // the capture launches nothing
  std::thread callback([&] {
    for (uint64_t i = 0; i < 5000; ++i)
      nccl.tell(world, {{.count = 2, .sequence = 0}}, reinterpret_cast<void*>(0x10002));
  });
  callback.join();
}

void proxy() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  std::vector<void*> open;
  for (int i = 0; i < 10; ++i)
    open.push_back(nccl.startProxyOp(world, ::getpid(), static_cast<uint8_t>(i), i % 4, i % 2 == 0));
  for (int i = 0; i < 5; ++i)
    if (nccl.startProxyOp(world, ::getpid() + 1, 0, 0, true)) die("an operation of another process was taken");
  for (void* handle : open) {
    nccl.state(handle, 19, nullptr);
    nccl.stop(handle);
  }
}

/// NCCL unloads the plugin with its last communicator and loads it again for the next.
void reload() {
  Nccl nccl(6);
  for (uint64_t i = 0; i < 3; ++i) {
    Communicator c{.hash = 0x100 + i};
    nccl.init(c);
    nccl.group(c, {{.count = 10, .sequence = i}}, stream(20));
    nccl.finalize(c);
    nccl.unload();
    nccl.load();
  }
}

/// More communicators at once than there are places, then many one after another.
void many() {
  Nccl nccl(5);
  std::vector<Communicator> all(700);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].hash = 0x1000 + i;
    nccl.init(all[i]);
    nccl.group(all[i], {{.count = 1, .sequence = i}}, stream(20));
  }
  nccl.group(all[0], {{.count = 2, .sequence = 1}}, stream(20));  // the others' coming did not turn it off
  for (Communicator& c : all) nccl.finalize(c);
  for (size_t i = 0; i < 100; ++i) {
    Communicator c{.hash = 0x9000 + i};
    nccl.init(c);
    nccl.group(c, {{.count = 3, .sequence = i}}, stream(20));
    nccl.finalize(c);
  }
}

/// Two ranks of one communicator in one process: one for each GPU.
void ranks() {
  Nccl nccl(5);
  Communicator a{.rank = 0, .ranks = 2}, b{.rank = 1, .ranks = 2};
  nccl.init(a);
  nccl.init(b);
  const uint32_t first = nccl.group(a, {{.count = 1, .sequence = 7}}, stream(20));
  const uint32_t second = nccl.group(b, {{.count = 1, .sequence = 7}}, stream(21));
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, first);
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 21, second);
}

/// The word that pauses the probe, in its ring.
std::atomic<uint32_t>& recordingWord() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(".ring")) return *reinterpret_cast<std::atomic<uint32_t>*>(std::stoull(line, nullptr, 16) + 120);
  die("there is no ring");
}

/// Sends and receives with several peers; of some nobody takes notice. And again when the probe has no place left but
/// the first communicator's.
void pairs() {
  Nccl nccl(5);
  for (uint64_t i = 0; i <= 512; ++i) {
    Communicator c;
    c.hash += i;
    nccl.init(c);
    if (i > 0 && i < 512) {
      nccl.finalize(c);
      continue;
    }
    auto run = [&](const std::vector<Op>& ops) {
      runKernel("ncclDevKernel_SendRecv", 20, nccl.group(c, ops, stream(20)));
    };
    const Op send1{.function = "Send", .count = 1, .peer = 1}, recv1{.function = "Recv", .count = 1, .peer = 1},
        send2{.function = "Send", .count = 1, .peer = 2};
    run({send1, recv1});
    recordingWord() = 0;
    run({send1, send2});
    recordingWord() = 1;
    run({send2, recv1});
    run({send1});
    nccl.finalize(c);
  }
}

/// The last operation never runs: another rank did not come.
void hang() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20,
            nccl.group(world, {{.count = 1, .sequence = 0}}, stream(20)));
  nccl.group(world, {{.count = 2, .sequence = 1}}, stream(20));
  nccl.group(world, {{.function = "Send", .count = 3, .peer = 4}}, stream(20));
  std::fflush(nullptr);
  std::abort();
}

/// One kernel of an alternating pair is lost; those after it must not shift.
void lost() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  for (uint64_t i = 0; i < 10; ++i) {
    const uint32_t gather =
        nccl.group(world, {{.function = "AllGather", .count = 1, .datatype = "ncclInt8", .sequence = i}}, stream(20));
    const uint32_t scatter = nccl.group(world, {{.function = "ReduceScatter", .count = 1, .sequence = i}}, stream(20));
    if (i == 3)
      cuda().kernel("ncclDevKernel_AllGather_RING_LL", 20, 0, 0, gather);
    else
      runKernel("ncclDevKernel_AllGather_RING_LL", 20, gather);
    runKernel("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 20, scatter);
  }
}

/// Operations go on while another profiler has CUPTI; their kernels are not seen, and those after must not be taken for
/// them.
void aside() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  const char* kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  auto waitFor = [](bool on) {
    for (int i = 0; (cuda().cupti()->enabled(10) != 0) != on; ++i) {
      if (i > 30000) die("waited in vain");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  uint64_t sequence = 0;
  auto some = [&] {
    for (int i = 0; i < 5; ++i, ++sequence)
      runKernel(kernel, 20, nccl.group(world, {{.count = 1, .sequence = sequence}}, stream(20)));
  };
  some();
  void* library = ::dlopen(std::getenv("FAKE_OTHER_PROFILER"), RTLD_NOW | RTLD_LOCAL);
  if (!library) die(::dlerror());
  reinterpret_cast<void (*)()>(::dlsym(library, "otherProfilerStart"))();
  some();
  reinterpret_cast<void (*)()>(::dlsym(library, "otherProfilerStop"))();
  waitFor(false);
  some();
  waitFor(true);
  some();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const int version = argc > 2 ? std::atoi(argv[2]) : 5;
  cuda().init();
  const std::map<std::string, std::function<void()>> scenarios = {{"basic", [&] { basic(version); }},
                                                                  {"grouped", grouped},
                                                                  {"threads", threads},
                                                                  {"stale", stale},
                                                                  {"graph", graph},
                                                                  {"proxy", proxy},
                                                                  {"reload", reload},
                                                                  {"many", many},
                                                                  {"ranks", ranks},
                                                                  {"pairs", pairs},
                                                                  {"hang", hang},
                                                                  {"lost", lost},
                                                                  {"aside", aside}};
  auto found = scenarios.find(scenario);
  if (found == scenarios.end()) die("no scenario " + scenario);
  found->second();
  return 0;
}
