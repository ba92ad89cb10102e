#include "nccl_timed.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "nccl.hpp"
#include "tracesmith/tracesmith.h"

namespace tracesmith::fake {

void waitForCupti(bool on) {
  for (int i = 0; (cuda().cupti()->enabled(10) != 0) != on; ++i) {
    if (i > 30000) die("waited in vain");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void events() {
  void* library = ::dlopen(std::getenv("FAKE_LIBCUDA"), RTLD_NOW | RTLD_GLOBAL);
  if (!library) die(::dlerror());
  const auto work = reinterpret_cast<void (*)(void*, uint64_t)>(::dlsym(library, "fakeStreamWork"));
  const auto capture = reinterpret_cast<void (*)(void*, int)>(::dlsym(library, "fakeStreamCapture"));
  const auto last = reinterpret_cast<void (*)(uint64_t*, uint64_t*)>(::dlsym(library, "fakeLastEvents"));
  const auto record = reinterpret_cast<int (*)(void*, void*)>(::dlsym(library, "cuEventRecord"));
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  constexpr uint64_t kMs = 1'000'000;
  uint64_t takes = 3 * kMs, sequence = 0;
  nccl.on_launch = [&](uint32_t* on) { work(on, takes); };
  auto run = [&](size_t count, uint32_t on) {
    const uint32_t correlation = nccl.group(world, {{.count = count, .sequence = sequence++}}, stream(on));
    uint64_t start, end;
    last(&start, &end);
    std::printf("%zu %llu %llu\n", count, static_cast<unsigned long long>(start), static_cast<unsigned long long>(end));
    return correlation;
  };
  tracesmith_step_begin(10);
  waitForCupti(false);
  for (size_t count = 1; count <= 5; ++count) run(count, 20 + count % 2);
  // Several in one launch.
  nccl.group(world, {{.count = 6, .sequence = sequence}, {.count = 6, .sequence = sequence + 1}}, stream(20));
  sequence += 2;
  // A stream that is captured gets no events, and while it is nobody's questions may spoil it.
  capture(stream(23), 1);
  std::vector<void*> calls;
  nccl.group(world, {{.count = 7}}, stream(23), &calls);
  nccl.group(world, {{.count = 8, .sequence = sequence++}}, stream(23));
  tracesmith_step_begin(99);
  waitForCupti(true);  // our thread has been at it
  capture(stream(23), 0);
  tracesmith_step_begin(100);
  runKernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, run(9, 20));
  tracesmith_step_begin(102);
  waitForCupti(false);
  run(10, 20);
  void* until = nullptr;  // of what stream 20 has to do
  reinterpret_cast<int (*)(void**, unsigned)>(::dlsym(library, "cuEventCreate"))(&until, 0);
  record(until, stream(20));
  const auto query = reinterpret_cast<int (*)(void*)>(::dlsym(library, "cuEventQuery"));
  while (query(until) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  takes = 3'600'000 * kMs;
  run(11, 22);  // it does not end
}

void eventSteps() {
  if (!::dlopen(std::getenv("FAKE_LIBCUDA"), RTLD_NOW | RTLD_GLOBAL)) die(::dlerror());
  Nccl nccl(5);
  Communicator world;
  nccl.init(world);
  for (int step = 0; step < 200; ++step) {
    tracesmith_step_begin(step);
    nccl.group(world, {{.count = 1, .sequence = static_cast<uint64_t>(step)}}, stream(20));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tracesmith_step_end();
  }
}

}  // namespace tracesmith::fake
