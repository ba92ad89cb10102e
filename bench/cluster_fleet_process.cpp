// The process of a fleet: its ranks, agents and jobs, and the commands that it takes.
#include "cluster_fleet.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "access/names.hpp"
#include "capture/ring/writer.hpp"
#include "cluster/agent/agent_link.hpp"
#include "hardware/metrics.hpp"

namespace tracesmith::bench {
namespace {

using namespace cluster;

constexpr int kKernelNames = 48;
constexpr uint64_t kTickNs = 10'000'000;
constexpr hardware::Metric kMetrics[kFleetMetrics] = {
    hardware::Metric::gpu_utilization_percent, hardware::Metric::gpu_memory_utilization_percent,
    hardware::Metric::gpu_power_watts,         hardware::Metric::gpu_temperature_celsius,
    hardware::Metric::gpu_sm_clock_mhz,        hardware::Metric::gpu_memory_clock_mhz,
    hardware::Metric::gpu_throttle_reasons,    hardware::Metric::gpu_memory_used_bytes};

double threadCpu() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Telemetry of simulated GPUs, due every period since the first: a sampler's threads would be thousands here.
class FleetTelemetry final : public NodeSource {
 public:
  explicit FleetTelemetry(std::string node) : node_(std::move(node)) {}
  void watch(uint32_t freq_ms) override {
    if (freq_ms == freq_ms_) return;
    freq_ms_ = freq_ms;
    next_ns_ = 0;
  }
  void newSegment() override {}
  Result<size_t> take(trace::Writer& writer, trace::Appender& out) override {
    if (freq_ms_ == 0) return 0;
    const auto now = static_cast<int64_t>(ring::nowNs());
    const int64_t period = freq_ms_ * 1'000'000ll;
    if (next_ns_ == 0) next_ns_ = now;
    size_t rows = 0;
    for (; next_ns_ <= now; next_ns_ += period)
      for (int gpu = 0; gpu < kFleetGpus; ++gpu)
        for (int m = 0; m < kFleetMetrics; ++m, ++rows) {
          const hardware::MetricInfo& info = hardware::metricInfo(kMetrics[m]);
          trace::MetricRow row;
          row.ts = next_ns_;
          row.node = writer.string(node_);
          row.device = gpu;
          row.name = writer.string(info.name);
          if (!info.unit.empty()) row.unit = writer.string(info.unit);
          row.value = trace::real(m * 100 + static_cast<double>((next_ns_ / period + gpu * 7) % 31));
          TS_TRY(out.append(row));
        }
    return rows;
  }

 private:
  const std::string node_;
  uint32_t freq_ms_ = 0;
  int64_t next_ns_ = 0;
};

/// A rank that launches kernels: event 2k is the call, 2k + 1 the kernel; both have the correlation k + 1.
class Rank {
 public:
  /// Has GPUs `first_gpu` to `first_gpu` + gpus − 1.
  Rank(const std::string& folder, const std::string& node, int rank, int first_gpu, int gpus, uint32_t records)
      : first_gpu_(first_gpu), gpus_(gpus) {
    const std::string path = folder + "/" + std::to_string(::getpid()) + "." + std::to_string(rank) + ".ring";
    ring_ = ring::RingWriter::create(path.c_str(),
                                     {.lane0_records = records,
                                      .lane_records = records,
                                      .lanes = 2,
                                      .strings_bytes = 64u << 10,
                                      .string_slots = 1u << 9},
                                     memory_);
    if (!ring_) giveUp("cannot create " + path);
    ring::RingHeader& h = ring_->header();
    h.pid = 1000 + rank;
    h.writer_pid = ::getppid();  // a process of few threads: agents look at its CPU time every second
    h.writer_start = 0;
    h.simulated = 1;
    h.rank = rank;
    h.local_rank = first_gpu;
    h.mode = 1;
    h.recording = 1;
    h.cuda_state = 1;
    std::strncpy(h.command, "numbered job", sizeof h.command - 1);
    std::strncpy(h.host, node.c_str(), sizeof h.host - 1);
    ring_->addLane(h.pid);
    launch_ = ring_->intern("cudaLaunchKernel");
    for (int i = 0; i < kKernelNames; ++i)
      kernels_[i] = ring_->intern(("sm90_xmma_gemm_bf16_tile128x" + std::to_string(64 + i)).c_str());
    random_ = 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(rank + 1);
    h.state = ring::State::alive;
  }
  ~Rank() {
    ring_->header().state = ring::State::ended;
    ring_->unmap();
  }
  bool read() const { return ring_->header().reader != 0; }
  bool full() const { return ring_->fullLane(0) || ring_->fullLane(1); }
  uint64_t events() const { return 2 * pairs_; }
  uint64_t lost() const { return ring_->header().losses[ring::kRingFull]; }

  void pair(uint64_t at_ns, uint64_t until_ns) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const auto correlation = static_cast<uint32_t>(++pairs_);
    const uint64_t returned = at_ns + 2500 + random_ % 1500, start = returned + 3000 + (random_ >> 20) % 1000;
    ring_->writeLane(
        1, encode(ring::CallRecord{
               .name = launch_, .start = at_ns, .end = returned, .correlation = correlation, .thread = 4711}));
    const auto gpu = static_cast<int>(pairs_ % static_cast<uint64_t>(gpus_));
    ring_->writeLane(0, encode(ring::KernelRecord{
                            .name = kernels_[pairs_ % kKernelNames],
                            .start = start,
                            .end = std::min(start + 8000 + (random_ >> 40) % 20000, std::max(until_ns, start + 1)),
                            .device = static_cast<uint16_t>(first_gpu_ + gpu),
                            .stream = 7,
                            .correlation = correlation,
                            .context = 1}));
  }

 private:
  alignas(ring::RingWriter) char memory_[sizeof(ring::RingWriter)];
  ring::RingWriter* ring_ = nullptr;
  const int first_gpu_, gpus_;
  uint32_t launch_ = 0, kernels_[kKernelNames] = {};
  uint64_t random_ = 0, pairs_ = 0;
};

/// One node: rings and the agent that reads them.
struct FleetNode {
  FleetNode(const FleetOptions& options, int index) : name(fleetNode(index)), live_latest() {
    const std::string folder = options.folder + "/" + name, rings = folder + "/rings";
    std::filesystem::create_directories(folder);
    ::mkdir(rings.c_str(), 0700);
    const int of_rank = std::max(1, kFleetGpus / options.ranks);
    for (int r = 0; r < options.ranks; ++r)
      ranks.push_back(std::make_unique<Rank>(rings, name, index * options.ranks + r, r * of_rank % kFleetGpus, of_rank,
                                             options.ring_records));
    Result<std::unique_ptr<Spool>> opened = Spool::open(folder + "/spool");
    if (!opened) giveUp(opened.status().message());
    spool = std::move(*opened);
    clock = std::make_unique<ClockKeeper>(folder + "/clock");
    RecorderOptions recording;
    recording.node = name;
    recording.ring_folder = rings;
    recording.captures_file = folder + "/captures";
    recording.tick_ms = options.tick_ms;
    recorder = std::make_unique<Recorder>(recording, *spool, *clock, std::make_unique<FleetTelemetry>(name));
    live = std::make_unique<LiveReporter>(name, rings, live_latest, nullptr);
    Result<std::unique_ptr<Outward>> way = Outward::create("");
    if (!way) giveUp(way.status().message());
    outward = std::move(*way);
    processes = std::make_unique<ProcessLook>(ProcessLook::Options{name, "", rings}, live_latest);
    plans = std::make_unique<PlanCarrier>(rings);
    jobs = std::make_unique<RankHost>(RankHost::Options{false, name, rings, {}, outward.get(), {}});
    NodeRegistration info;
    info.node = info.hostname = name;
    info.agent_id = access::randomHex(16);
    info.boot_id = access::kernelBootId();
    info.version = TRACESMITH_VERSION;
    info.simulated = true;
    link = std::make_unique<MasterLink>(MasterLink::Options{info, 0, {}, 0}, *outward, *spool, *recorder, *clock, *live,
                                        *processes, *plans, *jobs);
    model::NodeDescription hardware;
    for (uint32_t g = 0; g < kFleetGpus; ++g) {
      DeviceStatus& gpu = hardware.gpus.emplace_back();
      gpu.index = g;
      gpu.memory_bytes = 80'000'000'000;
      gpu.name = "Simulated H100";
      gpu.simulated = true;
    }
    link->setHardware(std::move(hardware));
    link->dial(options.master);
  }
  ~FleetNode() {
    link.reset();
    live.reset();
    recorder.reset();
  }
  const std::string name;
  std::vector<std::unique_ptr<Rank>> ranks;
  hardware::Latest live_latest;
  std::unique_ptr<Spool> spool;
  std::unique_ptr<ClockKeeper> clock;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<LiveReporter> live;
  std::unique_ptr<Outward> outward;
  std::unique_ptr<ProcessLook> processes;
  std::unique_ptr<PlanCarrier> plans;
  std::unique_ptr<RankHost> jobs;
  std::unique_ptr<MasterLink> link;
};

/// The thread that plays all jobs of a fleet.
class Jobs {
 public:
  explicit Jobs(std::vector<Rank*> ranks) : ranks_(std::move(ranks)), thread_([this] { loop(); }) {}
  ~Jobs() {
    stop_ = true;
    thread_.join();
  }
  void rate(double per_second) { rate_ = per_second; }
  void fill(uint64_t per_ring) {
    fill_ = per_ring;
    while (fill_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  void pause() {
    rate_ = 0;
    const uint64_t now = ticks_;
    while (ticks_ < now + 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  double cpu() const { return cpu_; }
  uint64_t late() const { return late_; }

 private:
  void loop() {
    uint64_t last = ring::nowNs();
    double owed = 0;
    for (; !stop_; ++ticks_) {
      const uint64_t now = ring::nowNs();
      if (fill_ > 0) {
        if (!fillSome(now)) fill_ = 0;
      } else if (rate_ > 0 && now - last >= kTickNs) {
        owed += rate_ / 2 / static_cast<double>(ranks_.size()) * static_cast<double>(now - last) * 1e-9;
        const auto each = static_cast<uint64_t>(owed);
        owed -= static_cast<double>(each);
        for (Rank* rank : ranks_)
          for (uint64_t i = 0; i < each; ++i) {
            if (rank->full()) {  // a real job would lose it: here it is late, and counted
              late_ += each - i;
              break;
            }
            rank->pair(last + (now - last) * i / each, now);
          }
      }
      if (rate_ == 0 || now - last >= kTickNs) last = now;
      cpu_ = threadCpu();
      std::this_thread::sleep_for(std::chrono::milliseconds(fill_ > 0 ? 1 : 5));
    }
  }
  /// False: all have what they should.
  bool fillSome(uint64_t now) {
    bool more = false;
    for (Rank* rank : ranks_) {
      for (uint64_t i = 0; rank->events() < fill_ && !rank->full(); ++i)
        rank->pair(now + i * 100, now + i * 100 + 40000);
      more |= rank->events() < fill_;
    }
    return more;
  }

  const std::vector<Rank*> ranks_;
  std::atomic<double> rate_{0}, cpu_{0};
  std::atomic<uint64_t> fill_{0}, ticks_{0}, late_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

std::string fleetNode(int index) {
  char name[16];
  std::snprintf(name, sizeof name, "node%03d", index);
  return name;
}

int fleetMain(int argc, char** argv) {
  if (argc < 9) return 2;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Thousands of threads that on a real cluster would have machines of their own: the master has its own too.
  (void)!::nice(19);
  FleetOptions options;
  options.first = std::atoi(argv[2]);
  options.nodes = std::atoi(argv[3]);
  options.ranks = std::atoi(argv[4]);
  options.ring_records = static_cast<uint32_t>(std::atoi(argv[5]));
  options.master = argv[6];
  options.folder = argv[7];
  options.tick_ms = std::atoi(argv[8]);
  ::setenv("TRACESMITH_DIR", options.folder.c_str(), 1);  // other users' rings are none of ours
  std::vector<std::unique_ptr<FleetNode>> nodes;
  std::vector<Rank*> ranks;
  for (int n = 0; n < options.nodes; ++n) {
    nodes.push_back(std::make_unique<FleetNode>(options, options.first + n));
    for (auto& rank : nodes.back()->ranks) ranks.push_back(rank.get());
  }
  Jobs jobs(ranks);
  std::string line;
  for (std::cout << "ready" << std::endl; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "rate" || what == "fill") {
      while (!std::all_of(ranks.begin(), ranks.end(), [](const Rank* r) { return r->read(); }))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (what == "rate") {
      double rate = 0;
      words >> rate;
      jobs.rate(rate);
    } else if (what == "fill") {
      uint64_t count = 0;
      words >> count;
      jobs.fill(count);
    } else if (what == "stop") {
      jobs.pause();
      rusage usage{};
      ::getrusage(RUSAGE_SELF, &usage);
      uint64_t lost = 0;
      for (const Rank* rank : ranks) lost += rank->lost();
      std::cout << lost << ' ' << jobs.late() << ' '
                << static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6
                << ' ' << jobs.cpu();
      for (const Rank* rank : ranks) std::cout << ' ' << rank->events();
      std::cout << std::endl;
      continue;
    }
    std::cout << "ok" << std::endl;
  }
  return 0;
}

}  // namespace tracesmith::bench
