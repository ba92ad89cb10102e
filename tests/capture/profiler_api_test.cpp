// The C++ API: profiling from inside a program, on simulated GPUs and with stand-ins for CUDA's libraries.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "capture/api/nvlink_traffic.hpp"
#include "support/child.hpp"
#include "support/process.hpp"
#include "support/tree.hpp"
#include "tracesmith/cluster/multi_gpu_profiler.hpp"
#include "tracesmith/cluster/nccl_tracker.hpp"

namespace tracesmith::cluster {
namespace {

using test::eventually;
using test::Output;
using test::TempDir;

const std::string kBuild = TRACESMITH_BUILD_DIR;

class SimApi : public ::testing::Test {
 protected:
  SimApi() {
    ::setenv("TRACESMITH_DIR", (dir_ / "rings").c_str(), 1);
    sim_.sim.gpus = 3;
    sim_.sim.step_ms = 5;
    sim_.buffer_size = 1 << 14;
  }
  ~SimApi() override { ::unsetenv("TRACESMITH_DIR"); }
  MultiGPUConfig config() const {
    MultiGPUConfig c;
    c.platform = PlatformType::Sim;
    c.profiler = sim_;
    c.aggregation_interval_ms = 5;
    return c;
  }
  NCCLTrackerConfig ncclConfig() const {
    NCCLTrackerConfig c;
    c.platform = PlatformType::Sim;
    c.profiler = sim_;
    c.poll_interval_ms = 5;
    return c;
  }
  TempDir dir_;
  ProfilerConfig sim_;
};

TEST_F(SimApi, EveryGpuGivesEventsMarkedAsSimulated) {
  MultiGPUProfiler profiler(config());
  ASSERT_TRUE(profiler.initialize()) << profiler.lastError();
  EXPECT_EQ(profiler.getActiveGPUs(), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(profiler.getAllDeviceInfo().size(), 3u);
  EXPECT_TRUE(profiler.getDeviceInfo(2).simulated);
  EXPECT_FALSE(profiler.isCapturing());
  ASSERT_TRUE(profiler.startCapture());
  EXPECT_FALSE(profiler.startCapture()) << "twice";
  EXPECT_TRUE(eventually([&] { return profiler.eventsPerGPU(2) > 500 && profiler.eventsPerGPU(0) > 500; }));
  ASSERT_TRUE(profiler.stopCapture());
  std::vector<TraceEvent> events;
  const size_t first = profiler.getEvents(events, 100);
  EXPECT_EQ(first, 100u);
  profiler.getEvents(events);
  // More were dropped than captured where the ring itself was full before we came.
  EXPECT_GE(events.size() + profiler.totalEventsDropped(), profiler.totalEventsCaptured());
  std::set<uint32_t> gpus;
  for (const TraceEvent& e : events) {
    EXPECT_EQ(e.metadata.at("simulated"), "true");
    if (e.type == EventType::KernelComplete) {
      gpus.insert(e.device_id);
      EXPECT_GT(e.duration, 0u);
      EXPECT_TRUE(e.kernel_params && e.kernel_params->grid_x > 0);
    }
  }
  EXPECT_EQ(gpus.size(), 3u);
  events.clear();
  EXPECT_EQ(profiler.getEvents(events), 0u) << "fetched is gone, and nothing comes after the stop";
}

TEST_F(SimApi, GpusAreAddedAndRemoved) {
  MultiGPUConfig c = config();
  c.gpu_ids = {1};
  MultiGPUProfiler profiler(c);
  ASSERT_TRUE(profiler.initialize());
  EXPECT_EQ(profiler.getActiveGPUs(), std::vector<uint32_t>{1});
  EXPECT_TRUE(profiler.addGPU(2));
  EXPECT_FALSE(profiler.addGPU(2));
  EXPECT_FALSE(profiler.addGPU(9));
  EXPECT_EQ(profiler.lastStatus().code(), Code::kNotFound);
  EXPECT_EQ(profiler.lastError(), "there is no GPU 9");
  EXPECT_TRUE(profiler.removeGPU(1));
  EXPECT_FALSE(profiler.removeGPU(1));
  ASSERT_TRUE(profiler.startCapture());
  EXPECT_TRUE(eventually([&] { return profiler.eventsPerGPU(2) > 100; }));
  EXPECT_EQ(profiler.eventsPerGPU(1), 0u);
  std::vector<TraceEvent> events;
  EXPECT_EQ(profiler.getEventsFromGPU(1, events), 0u);
  EXPECT_GT(profiler.getEventsFromGPU(2, events), 0u);
  c.gpu_ids = {7};
  MultiGPUProfiler wrong(c);
  EXPECT_FALSE(wrong.initialize());
}

TEST_F(SimApi, AFullBufferCountsWhatItDrops) {
  MultiGPUConfig c = config();
  c.per_gpu_buffer_size = 10;
  MultiGPUProfiler profiler(c);
  ASSERT_TRUE(profiler.initialize());
  ASSERT_TRUE(profiler.startCapture());
  EXPECT_TRUE(eventually([&] { return profiler.eventsPerGPU(0) > 50; }));
  profiler.stopCapture();
  std::vector<TraceEvent> events;
  profiler.getEvents(events);
  EXPECT_LE(events.size(), 40u);
  EXPECT_GT(profiler.totalEventsDropped(), 0u);
  EXPECT_GE(events.size() + profiler.totalEventsDropped(), profiler.totalEventsCaptured());
}

TEST_F(SimApi, NcclOperationsComeWithGpuTimesAndBandwidth) {
  NCCLTracker tracker(ncclConfig());
  EXPECT_FALSE(tracker.isHooked());
  ASSERT_TRUE(tracker.installHooks()) << tracker.lastError();
  std::atomic<uint64_t> called{0};
  tracker.setOperationCallback([&](const NCCLOperation&) {
    ++called;
    (void)tracker.getStatistics();  // no lock is held
  });
  tracker.startCapture();
  EXPECT_TRUE(eventually([&] { return called > 100; }));
  tracker.stopCapture();
  const std::vector<NCCLOperation> all = tracker.getOperations();
  const NCCLTracker::Statistics s = tracker.getStatistics();
  EXPECT_EQ(s.total_operations, called);
  uint64_t finished = 0;
  for (const NCCLOperation& o : all) {
    EXPECT_TRUE(o.simulated);
    EXPECT_EQ(o.world_size, 3u);
    EXPECT_EQ(o.data_type, NCCLDataType::BFloat16);
    if (o.in_flight) continue;
    ++finished;
    EXPECT_GE(o.start_time, o.enqueue_time);
    EXPECT_GT(o.end_time, o.start_time);
    ASSERT_TRUE(o.algbw_gbps && o.busbw_gbps);
    if (o.op_type == NCCLOpType::AllReduce) {
      EXPECT_NEAR(*o.busbw_gbps / *o.algbw_gbps, 4.0 / 3, 1e-9);
      EXPECT_EQ(o.red_op, NCCLRedOp::Sum);
    }
  }
  EXPECT_EQ(finished, s.total_operations);
  EXPECT_EQ(tracker.getOperationsByType(NCCLOpType::Send).size(), 0u);
  EXPECT_EQ(tracker.getOperationsByComm(all[0].comm_id).empty(), false);
  EXPECT_EQ(tracker.toTraceEvents().size(), all.size());
  tracker.clear();
  EXPECT_EQ(tracker.getStatistics().total_operations, 0u);
}

TEST_F(SimApi, AHangShowsAsOperationsInFlight) {
  NCCLTrackerConfig c = ncclConfig();
  c.profiler.sim.faults = {"hang=1:3"};
  NCCLTracker tracker(c);
  ASSERT_TRUE(tracker.installHooks());
  tracker.startCapture();
  std::set<uint32_t> waiting;
  uint64_t done = 0, quiet = 0;  // looks at which nothing had ended since the last one
  EXPECT_TRUE(eventually([&] {
    waiting.clear();
    for (const NCCLOperation& o : tracker.getInFlight()) waiting.insert(o.rank);
    const uint64_t before = std::exchange(done, tracker.getStatistics().total_operations);
    quiet = done == before && !waiting.empty() ? quiet + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return quiet > 10;
  }));
  EXPECT_EQ(waiting, (std::set<uint32_t>{0, 2})) << "rank 1 never came";
}

TEST_F(SimApi, AFilterAloneLeavesOutOtherCommunicators) {
  NCCLTracker everything(ncclConfig());
  ASSERT_TRUE(everything.installHooks());
  everything.startCapture();
  std::set<uint64_t> comms;
  EXPECT_TRUE(eventually([&] {
    for (const NCCLOperation& o : everything.getOperations()) comms.insert(o.comm_id);
    return comms.size() > 1;
  }));
  NCCLTrackerConfig c = ncclConfig();
  c.comm_filter = {*comms.begin()};
  NCCLTracker tracker(c);
  ASSERT_TRUE(tracker.installHooks());
  tracker.startCapture();
  EXPECT_TRUE(eventually([&] { return tracker.getStatistics().total_operations > 10; }));
  for (const NCCLOperation& o : tracker.getOperations()) EXPECT_EQ(o.comm_id, *comms.begin());
}

TEST_F(SimApi, OldOperationsGoAndAreCounted) {
  NCCLTrackerConfig c = ncclConfig();
  c.max_operations = 20;
  NCCLTracker tracker(c);
  ASSERT_TRUE(tracker.installHooks());
  tracker.startCapture();
  EXPECT_TRUE(eventually([&] { return tracker.operationsDropped() > 0; }));
  tracker.stopCapture();
  std::vector<NCCLOperation> all = tracker.getOperations();
  std::erase_if(all, [](const NCCLOperation& o) { return o.in_flight; });
  EXPECT_EQ(all.size(), 20u);
  EXPECT_EQ(tracker.getStatistics().total_operations, 20 + tracker.operationsDropped());
}

TEST_F(SimApi, LinksTellWhatWasSentOverThem) {
  MultiGPUConfig c = config();
  c.nvlink_interval_ms = 20;
  MultiGPUProfiler profiler(c);
  ASSERT_TRUE(profiler.initialize()) << profiler.lastError();
  ASSERT_TRUE(profiler.startCapture());
  auto counted = [&] {
    std::set<uint32_t> gpus;
    for (const auto& t : profiler.getNVLinkTransfers())
      if (t.counted && t.bytes > 0 && t.duration_ns > 0 && t.dst_gpu == MultiGPUProfiler::kUnknownGPU)
        gpus.insert(t.src_gpu);
    return gpus;
  };
  EXPECT_TRUE(eventually([&] { return counted() == std::set<uint32_t>{0, 1, 2}; })) << "all behind a switch";
  profiler.stopCapture();
}

TEST(NvLinkTraffic, FindsTheProgramsGpusAndWhereTheirLinksEnd) {
  TempDir dir;
  // GPU 0 with GPU 1 over all its links; GPU 2's links have counters of their own, to 0 and to a switch; 3 is not ours.
  test::writeFile(dir / "gpus.txt",
                  "gpus = 4\nname = NVIDIA Test\nfield 138 = 100 step 10\n"
                  "[gpu 0]\npci = 0000:18:00.0\nlink 0-1 = gpu 1 version 3 speed 25000\n"
                  "[gpu 1]\npci = 0000:2a:00.0\nlink 0-1 = gpu 0 version 3 speed 25000\n"
                  "[gpu 2]\npci = 0000:3a:00.0\nlink 0 = gpu 0 version 5 speed 50000\n"
                  "link 1 = switch 0000:05:00.0 version 5 speed 50000\nfield 202 = 5000 step 7\n"
                  "[gpu 3]\npci = 0000:5d:00.0\nlink 0-1 = gpu 1 version 3 speed 25000\n");
  ::setenv("TRACESMITH_FAKE_NVML", (dir / "gpus.txt").c_str(), 1);
  ::setenv("TRACESMITH_NVML", test::fakeNvml().c_str(), 1);
  std::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> sent;
  bool forward = true;
  {
    capture::NvLinkTraffic traffic({{"0000:18:00.0", 1}, {"0000:2a:00.0", 0}, {"0000:3a:00.0", 2}}, 0, 20,
                                   [&](uint32_t from, uint32_t to, uint64_t bytes, int64_t from_ns, int64_t to_ns) {
                                     std::lock_guard lock(mutex);
                                     sent[{from, to}] = bytes;
                                     forward &= to_ns > from_ns;
                                   });
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mutex);
      return sent.size() >= 4;
    }));
  }
  ::unsetenv("TRACESMITH_NVML");
  ::unsetenv("TRACESMITH_FAKE_NVML");
  using Sent = std::map<std::pair<uint32_t, uint32_t>, uint64_t>;
  EXPECT_EQ(sent, (Sent{{{1, 0}, 10 * 1024}, {{0, 1}, 10 * 1024}, {{2, 1}, 7}, {{2, capture::kUnknownGpu}, 7}}));
  EXPECT_TRUE(forward);
}

TEST_F(SimApi, WrongUseSaysWhy) {
  EXPECT_EQ(createProfiler(PlatformType::Unknown), nullptr);
  EXPECT_EQ(platformFromName("metal"), PlatformType::Unknown);
  auto profiler = createProfiler(PlatformType::Sim);
  EXPECT_FALSE(profiler->startCapture());
  EXPECT_EQ(profiler->lastStatus().code(), Code::kInvalid);
  EXPECT_EQ(profiler->lastError(), "not initialized");
  sim_.sim.faults = {"nonsense"};
  EXPECT_FALSE(profiler->initialize(sim_));
  EXPECT_NE(profiler->lastError().find("unknown fault 'nonsense'"), std::string::npos);
}

/// The lines of a program's output that begin with a word.
std::vector<std::string> lines(const std::string& text, const std::string& word) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(word + "|")) out.push_back(line.substr(word.size() + 1));
  return out;
}

class CudaApi : public ::testing::Test {
 protected:
  Output run(const std::vector<std::string>& command) {
    return test::runWith({{"TRACESMITH_DIR", dir_ / "rings"},
                          {"TRACESMITH_CUPTI", kBuild + "/lib/tests/libcupti.so.13"},
                          {"LD_LIBRARY_PATH", kBuild + "/lib/tests/driver"}},
                         command);
  }
  void check(const Output& out) {
    ASSERT_EQ(out.rc, 0) << out.out << out.err;
    const std::vector<std::string> events = lines(out.out, "event");
    int kernels = 0;
    for (const std::string& e : events) {
      kernels += e.starts_with("KernelComplete|kernel_");
      EXPECT_EQ(e.find("before"), std::string::npos) << e;
      EXPECT_EQ(e.find("after"), std::string::npos) << e;
    }
    EXPECT_EQ(kernels, 10) << out.out;
    EXPECT_EQ(std::ranges::count(events, "MemcpyH2D|Memcpy HtoD (Pageable -> Device)|300||4096"), 1) << out.out;
    EXPECT_EQ(std::ranges::count_if(events, [](const std::string& e) { return e.find("|AllReduce|") != e.npos; }), 1)
        << "the NCCL kernel is told by name";
    EXPECT_EQ(lines(out.out, "link"), std::vector<std::string>{"1|0|1048576"});
    EXPECT_EQ(lines(out.out, "device"),
              (std::vector<std::string>{"0|Fake GPU 0|75|unknown", "1|Fake GPU 1|75|unknown"}));
    EXPECT_EQ(lines(out.out, "nccl"),
              (std::vector<std::string>{"AllToAll|77|0|2|4|1048576|1000|?|speed 1048.576 786.432",
                                        "AllReduce|77|1|2|4|1048576|1000|sum|speed 1048.576 1572.864",
                                        "AllReduce|77|2|2|4|1048576|0|in flight|speed 0 0"}));
    EXPECT_EQ(lines(out.out, "lost"), std::vector<std::string>{"0"});
  }
  TempDir dir_;
};

TEST_F(CudaApi, AProgramProfilesItself) { check(run({kBuild + "/bin/tests/profiler_program"})); }

TEST_F(CudaApi, UnderRunBothGetEverything) {
  Output out = run({TRACESMITH_BIN, "run", "-o", dir_ / "t.sbt", "--", kBuild + "/bin/tests/profiler_program"});
  check(out);
  EXPECT_NE(out.err.find(" 14 kernels"), std::string::npos) << "before, after and the NCCL kernels too: " << out.err;
}

TEST_F(CudaApi, OperationsKnowTheirGroupAndWhoCalledThem) {
  const std::string program = kBuild + "/bin/tests/tracker_program";
  using Lines = std::vector<std::string>;
  Output out = run({program, "5"});
  ASSERT_EQ(out.rc, 0) << out.out << out.err;
  EXPECT_EQ(lines(out.out, "early"), Lines{"not hooked: call installHooks() first"});
  EXPECT_EQ(lines(out.out, "op"),
            (Lines{"AllReduce|1|group 1|callsOne (tracker_program+", "AllReduce|2|group 2|callsGroup (tracker_program+",
                   "Send|3|group 2|callsGroup (tracker_program+", "AllReduce|1|group 3|callsOne (tracker_program+",
                   "GroupStart|0|group 2|no stack", "GroupEnd|0|group 2|no stack"}));
  out = run({program, "5", "nostack"});
  ASSERT_EQ(lines(out.out, "op").size(), 6u) << out.err;
  EXPECT_EQ(lines(out.out, "op")[0], "AllReduce|1|group 1|no stack") << out.out << out.err;
  // NCCL before 2.28 tells nothing of groups, and of an operation when it is launched.
  out = run({program, "4"});
  ASSERT_GE(lines(out.out, "op").size(), 2u) << out.err;
  EXPECT_EQ(lines(out.out, "op")[0], "AllReduce|1|group -1|callsOne (tracker_program+") << out.out << out.err;
  EXPECT_EQ(lines(out.out, "op")[1], "AllReduce|2|group -1|callsGroup (tracker_program+") << out.out << out.err;
}

TEST(Examples, Run) {
  TempDir dir;
  const test::Environment environment = {{"TRACESMITH_DIR", dir / "rings"}};
  Output gpus = test::runWith(environment, {kBuild + "/bin/examples/multi_gpu_example", "sim", "0.5"});
  EXPECT_EQ(gpus.rc, 0) << gpus.err;
  EXPECT_NE(gpus.out.find("GPU 3  Simulated H100"), std::string::npos) << gpus.out;
  EXPECT_NE(gpus.out.find(", 0 lost,"), std::string::npos) << gpus.out;
  Output nccl = test::runWith(environment, {kBuild + "/bin/examples/nccl_tracking_example", "sim", "1.5"});
  EXPECT_EQ(nccl.rc, 0) << nccl.err;
  EXPECT_NE(nccl.out.find("AllReduce"), std::string::npos) << nccl.out;
  EXPECT_NE(nccl.out.find("on rank 3"), std::string::npos) << nccl.out;
  EXPECT_EQ(nccl.out.find("on rank 1\n"), std::string::npos) << "the one that hangs: " << nccl.out;
}

}  // namespace
}  // namespace tracesmith::cluster
