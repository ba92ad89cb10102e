#include "capture/api/ring_source.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/library.hpp"
#include "capture/collect/collector.hpp"
#include "capture/sim/live.hpp"

namespace tracesmith::capture {

/// What all sources of a platform in this process have in common.
struct RingSource::Shared {
  ~Shared() {
    stop = true;
    if (player.joinable()) player.join();
  }
  std::vector<std::string> paths;
  std::unique_ptr<sim::LiveJob> job;
  std::thread player;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::vector<uint32_t> wants;  // of each source that records; guarded by mutex
};

Result<std::string> findProbe() {
  if (const char* set = std::getenv("TRACESMITH_PROBE"); set && *set) return std::string(set);
  Result<std::string> found = installedFile("libtracesmith_probe.so");
  if (found) return found;
  return Status::notFound("recording needs " + found.status().message() + ": set TRACESMITH_PROBE to its path");
}

namespace {

/// The ring that the probe created in this process.
std::string ownRing() {
  Result<std::string> folder = ring::ringFolder();
  if (!folder) return {};
  std::string newest;
  for (const std::string& path : ring::findRings(*folder))
    if (auto reader = ring::RingReader::open(path))
      if ((*reader)->header().pid == ::getpid() && !(*reader)->header().simulated && (*reader)->alive()) newest = path;
  return newest;
}

bool taken(const char* variable, const std::string& probe) {
  const char* value = std::getenv(variable);
  return value && *value && probe != value;
}

Status loadProbe(const ProfilerConfig& config) {
  Result<std::string> folder = ring::ringFolder();
  if (!folder) return folder.status();
  Result<std::string> probe = findProbe();
  if (!probe) return probe.status();
  ::setenv("TRACESMITH_DIR", folder->c_str(), 1);
  ::setenv("TRACESMITH_PROBE", probe->c_str(), 1);
  ::setenv("TRACESMITH_MODE", config.mode.c_str(), 0);
  if (!std::getenv("TRACESMITH_READER")) ::setenv("TRACESMITH_PAUSED", "1", 0);  // else `tracesmith run` records
  ::setenv("TRACESMITH_RING_MB", std::to_string(std::max<size_t>(1, config.buffer_size >> 14)).c_str(), 0);
  Result<SharedLibrary> library = SharedLibrary::load({*probe});
  if (!library) return Status::io("cannot load the probe: " + library.status().message());
  // If CUDA is not initialized yet, the driver calls the probe itself, early enough to see everything.
  if (!taken("CUDA_INJECTION64_PATH", *probe)) ::setenv("CUDA_INJECTION64_PATH", probe->c_str(), 1);
  if (!taken("NVTX_INJECTION64_PATH", *probe)) ::setenv("NVTX_INJECTION64_PATH", probe->c_str(), 1);
  int (*start)() = nullptr;
  if (!library->find(start, "InitializeInjection")) return Status::io(*probe + " is not TraceSmith's probe");
  start();
  return {};
}

uint64_t losses(const ring::RingHeader& h) {
  uint64_t all = 0;
  for (uint32_t cause = 0; cause < ring::kLossCauses; ++cause) all += h.losses[cause].load();
  return all;
}

}  // namespace

Status RingSource::hookNccl() {
  Result<std::string> probe = findProbe();
  if (!probe) return probe.status();
  if (taken("NCCL_PROFILER_PLUGIN", *probe))
    return Status::invalid("NCCL_PROFILER_PLUGIN names another plugin: " +
                           std::string(std::getenv("NCCL_PROFILER_PLUGIN")));
  ::setenv("NCCL_PROFILER_PLUGIN", probe->c_str(), 1);
  return {};
}

std::shared_ptr<RingSource::Shared> RingSource::shared(PlatformType platform, const ProfilerConfig& config,
                                                       Status& status) {
  static std::mutex mutex;
  static std::weak_ptr<Shared> sim;
  static std::shared_ptr<Shared> cuda;
  std::lock_guard lock(mutex);
  if (platform == PlatformType::CUDA) {
    if (cuda) return cuda;
    auto fresh = std::make_shared<Shared>();
    std::string path = ownRing();  // under `tracesmith run` it already exists
    if (path.empty()) {
      status = loadProbe(config);
      if (!status) return nullptr;
      path = ownRing();
    }
    if (path.empty()) {
      status = Status::io("the probe could not create a ring");
      return nullptr;
    }
    fresh->paths = {path};
    return cuda = fresh;
  }
  if (auto there = sim.lock()) return there;
  auto fresh = std::make_shared<Shared>();
  sim::LiveConfig live;
  live.job.ranks = static_cast<int>(config.sim.gpus);
  live.job.gpus_per_node = live.job.ranks;
  live.job.seed = config.sim.seed;
  live.step_ms = config.sim.step_ms;
  live.speed = config.sim.speed;
  live.steps = config.sim.steps;
  live.host = hostName();
  live.ring_records = 1024;
  while (live.ring_records < config.buffer_size && live.ring_records < (1u << 20)) live.ring_records *= 2;
  live.recording = false;
  for (const std::string& fault : config.sim.faults) {
    status = sim::addFault(live.job.faults, fault);
    if (!status) return nullptr;
  }
  if (config.sim.gpus == 0 || config.sim.gpus > 65536 || !(config.sim.speed > 0) || !(config.sim.step_ms > 0)) {
    status = Status::invalid("SimConfig: gpus, speed and step_ms must be above 0");
    return nullptr;
  }
  Result<std::unique_ptr<sim::LiveJob>> job = sim::LiveJob::create(live);
  if (!job) {
    status = job.status();
    return nullptr;
  }
  fresh->job = std::move(*job);
  fresh->paths = fresh->job->ringPaths();
  sim = fresh;
  return fresh;
}

Result<std::unique_ptr<RingSource>> RingSource::open(PlatformType platform, const ProfilerConfig& config,
                                                     uint32_t wants) {
  if (platform != PlatformType::CUDA && platform != PlatformType::Sim)
    return Status::unsupported("this platform has no profiler: use cuda or sim");
  std::unique_ptr<RingSource> source(new RingSource());
  source->platform_ = platform;
  source->wants_ = wants;
  Status status;
  source->shared_ = shared(platform, config, status);
  if (!source->shared_) return status;
  for (const std::string& path : source->shared_->paths) {
    Result<std::unique_ptr<ring::RingReader>> reader = ring::RingReader::open(path);
    if (!reader) return reader.status();
    Ring ring{std::move(*reader), {}, 0};
    ring.lost_before = losses(ring.reader->header());
    source->rings_.push_back(std::move(ring));
  }
  return source;
}

RingSource::~RingSource() { setRecording(false); }

void RingSource::setRecording(bool on) {
  if (!shared_ || on == recording_) return;
  recording_ = on;
  if (on) poll([](size_t, uint32_t, const ring::Record&) {});  // what is there already is not wanted
  const uint64_t now = ring::nowNs();
  from_ns_ = on ? now : from_ns_;
  to_ns_ = on ? UINT64_MAX : now;
  {
    std::lock_guard lock(shared_->mutex);
    std::vector<uint32_t>& wants = shared_->wants;
    if (on)
      wants.push_back(wants_);
    else
      wants.erase(std::find(wants.begin(), wants.end(), wants_));
    const uint32_t wanted = std::accumulate(wants.begin(), wants.end(), 0u, std::bit_or<>());
    for (Ring& ring : rings_) {
      ring.reader->header().wants = wanted;
      // If `tracesmith run` records too, it is not ours to stop.
      if (on || (wants.empty() && (own_reader_ || ring.reader->attachedReader() == 0)))
        ring.reader->header().recording = on;
    }
    // A simulated job begins when the first source records it, so that nothing is missed.
    if (on && shared_->job && !shared_->player.joinable()) {
      shared_->job->beginNow();
      shared_->player = std::thread([s = shared_.get()] { s->job->run(s->stop); });
    }
  }
  waitForProbe(now);
}

const std::vector<std::string>& RingSource::paths() const { return shared_->paths; }

/// The probe's own thread turns CUPTI on and off and fetches its records: waits until it has done so.
void RingSource::waitForProbe(uint64_t since_ns) const {
  for (const Ring& ring : rings_) {
    const ring::RingHeader& h = ring.reader->header();
    if (h.simulated || h.cuda_state.load() != 1) continue;
    for (int turns = 0, i = 0; turns < 2 && i < 1000; ++i) {
      const uint64_t seen = h.heartbeat_ns.load();
      if (seen > since_ns) {
        ++turns;
        since_ns = seen;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

size_t RingSource::poll(const Visit& visit) {
  size_t count = 0;
  for (size_t i = 0; i < rings_.size(); ++i)
    rings_[i].reader->follow(rings_[i].cursors, [&](uint32_t lane, const ring::Record& r) {
      const bool context = r.kind == ring::Kind::thread || r.kind == ring::Kind::comm || r.kind == ring::Kind::gpu_on ||
                           r.kind == ring::Kind::gpu_off;
      // Simulated time may run faster than ours: in that case only the control word says what is recorded.
      if (!context && !simulated() && (r.start < from_ns_ || r.start >= to_ns_)) return;
      ++count;
      visit(i, lane, r);
    });
  return count;
}

uint64_t RingSource::lost() const {
  uint64_t all = 0;
  for (const Ring& ring : rings_) all += ring.cursors.missed + losses(ring.reader->header()) - ring.lost_before;
  return all;
}

}  // namespace tracesmith::capture
