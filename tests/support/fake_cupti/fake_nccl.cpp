// A program that uses NCCL, without NCCL: what it does, by scenario.
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

#include "nccl.hpp"
#include "nccl_graphs.hpp"
#include "nccl_proxies.hpp"
#include "nccl_timed.hpp"

namespace {

using namespace tracesmith::fake;

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
  std::vector<void*> calls;
  nccl.group(world, {{.count = 1, .sequence = 0}}, stream(20), &calls);  // launches nothing
  std::thread callback([&] {
    for (uint64_t i = 0; i < 5000; ++i) nccl.tell(world, {{.count = 2, .sequence = 0}}, calls);
  });
  callback.join();
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20,
            nccl.group(world, {{.count = 3, .sequence = 0}}, stream(20)));
}

/// Operations are told on a thread of CUDA's, each when the next two have been launched, some after their kernel.
void elsewhere() {
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  std::vector<std::function<void()>> untold;
  nccl.teller = [&](const std::function<void()>& tell) { untold.push_back(tell); };
  std::vector<uint32_t> launched;
  auto run = [&] {  // what was launched, in order
    for (uint64_t i = 0; i < launched.size(); ++i)
      if (const uint32_t correlation = std::exchange(launched[i], 0))
        runKernel(i % 3 == 2 ? "ncclDevKernel_SendRecv" : "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, correlation);
  };
  for (uint64_t i = 0; i < 12; ++i) {
    const std::vector<Op> ops = {i % 3 == 2 ? Op{.function = "Send", .count = i + 1, .peer = 4}
                                            : Op{.count = i + 1, .sequence = i}};
    launched.push_back(nccl.group(world, ops, stream(20)));
    if (i % 4 == 1) run();
    if (i % 3 != 2) continue;
    std::thread([&] {
      for (const auto& tell : std::exchange(untold, {})) tell();
    }).join();
    run();
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

/// Collectives of several functions, as FSDP calls them; of some nobody takes notice, and one is captured.
void numbers(int version) {
  Nccl nccl(version);
  Communicator a, b{.hash = 0xbee};
  nccl.init(a);
  nccl.init(b);
  std::map<std::pair<uint64_t, std::string>, uint64_t> sequences;  // as NCCL counts
  auto run = [&](Communicator& c, const char* function) {
    const Op op{.function = function, .count = 1, .sequence = sequences[{c.hash, function}]++};
    runKernel((std::string("ncclDevKernel_") + function + "_RING_LL").c_str(), 20, nccl.group(c, {op}, stream(20)));
  };
  run(a, "AllGather");
  run(b, "AllReduce");
  run(a, "AllGather");
  recordingWord() = 0;
  run(a, "ReduceScatter");
  run(b, "AllReduce");
  recordingWord() = 1;
  run(a, "AllGather");
  std::vector<void*> calls;
  if (version >= 5) nccl.group(a, {{.function = "AllGather", .count = 1}}, stream(20), &calls);
  run(a, "ReduceScatter");
  run(b, "AllGather");
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
  waitForCupti(false);
  some();
  waitForCupti(true);
  some();
  if (cuda().cupti()->clocks() != 1) die("the clock was registered again");
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
                                                                  {"elsewhere", elsewhere},
                                                                  {"proxy", proxy},
                                                                  {"steps", [&] { proxySteps(version); }},
                                                                  {"reload", reload},
                                                                  {"many", many},
                                                                  {"ranks", ranks},
                                                                  {"pairs", pairs},
                                                                  {"numbers", [&] { numbers(version); }},
                                                                  {"hang", hang},
                                                                  {"lost", lost},
                                                                  {"aside", aside},
                                                                  {"replays", [] { replays(false); }},
                                                                  {"proxy_replays", [] { replays(true); }},
                                                                  {"replay_hangs", replayHangs},
                                                                  {"copies", [&] { copyEngines(version); }},
                                                                  {"events", events},
                                                                  {"event steps", eventSteps}};
  auto found = scenarios.find(scenario);
  if (found == scenarios.end()) die("no scenario " + scenario);
  found->second();
  return 0;
}
