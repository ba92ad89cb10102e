#include "tracesmith/capture/multi_gpu_profiler.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "capture/api/nvlink_traffic.hpp"

namespace tracesmith::cluster {
namespace {

constexpr uint32_t kHost = UINT32_MAX;  // the host's own events, beside those of the GPUs

bool onGpu(EventType type) {
  switch (type) {
    case EventType::KernelComplete:
    case EventType::MemcpyH2D:
    case EventType::MemcpyD2H:
    case EventType::MemcpyD2D:
    case EventType::MemsetDevice:
      return true;
    default:
      return false;
  }
}

Status noGpu(uint32_t gpu) { return Status::notFound("there is no GPU " + std::to_string(gpu)); }

}  // namespace

struct MultiGPUProfiler::Impl {
  struct Buffer {
    std::deque<TraceEvent> events;
    uint64_t captured = 0, dropped = 0;
  };

  MultiGPUConfig config;
  std::unique_ptr<IPlatformProfiler> profiler;
  std::thread aggregator;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  bool stop = false;
  std::map<uint32_t, Buffer> buffers;  // by GPU
  uint64_t dropped_elsewhere = 0;      // of GPUs that were removed
  std::deque<NVLinkTransfer> transfers;
  std::unique_ptr<capture::NvLinkTraffic> traffic;  // while capturing
  std::vector<DeviceInfo> devices;
  Status last;

  bool fail(Status why) {
    std::lock_guard lock(mutex);
    return failLocked(std::move(why));
  }
  /// With mutex.
  bool failLocked(Status why) {
    last = std::move(why);
    return false;
  }

  /// With mutex.
  void keep(const NVLinkTransfer& transfer) {
    transfers.push_back(transfer);
    if (transfers.size() > config.per_gpu_buffer_size) transfers.pop_front();
  }

  void watchLinks() {
    std::map<std::string, uint32_t> gpu_of_pci;
    for (const DeviceInfo& d : devices)
      if (!d.pci_bus_id.empty()) gpu_of_pci[d.pci_bus_id] = d.device_id;
    const auto simulated = config.platform == PlatformType::Sim ? static_cast<uint32_t>(devices.size()) : 0;
    if (gpu_of_pci.empty() && simulated == 0) return;
    traffic = std::make_unique<capture::NvLinkTraffic>(
        std::move(gpu_of_pci), simulated, static_cast<int>(std::max(10u, config.nvlink_interval_ms)),
        [this](uint32_t from, uint32_t to, uint64_t bytes, int64_t from_ns, int64_t to_ns) {
          std::lock_guard lock(mutex);
          if (buffers.contains(from) || (to != kUnknownGPU && buffers.contains(to)))
            keep({from, to, bytes, static_cast<Timestamp>(from_ns), static_cast<uint64_t>(to_ns - from_ns), true});
        });
  }

  /// Moves what the profiler has into the buffers.
  void collect() {
    std::vector<TraceEvent> fresh;
    profiler->getEvents(fresh);
    std::lock_guard lock(mutex);
    for (TraceEvent& e : fresh) {
      const bool gpu = onGpu(e.type);
      const bool peer = e.memory_params && e.memory_params->src_device;
      if (peer && config.enable_nvlink_tracking &&
          (buffers.contains(*e.memory_params->src_device) || buffers.contains(*e.memory_params->dst_device))) {
        keep({*e.memory_params->src_device, *e.memory_params->dst_device, e.memory_params->size_bytes, e.timestamp,
              e.duration});
      }
      auto buffer = buffers.find(gpu ? e.device_id : kHost);
      if (buffer == buffers.end()) continue;  // a GPU that is not profiled
      if (peer && !config.enable_peer_access_tracking) continue;
      ++buffer->second.captured;
      if (buffer->second.events.size() < config.per_gpu_buffer_size)
        buffer->second.events.push_back(std::move(e));
      else
        ++buffer->second.dropped;
    }
  }

  void loop() {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, std::chrono::milliseconds(std::max(1u, config.aggregation_interval_ms)),
                          [&] { return stop; })) {
      lock.unlock();
      collect();
      lock.lock();
    }
  }

  void endLoop() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    if (aggregator.joinable()) aggregator.join();
    stop = false;
  }

  bool known(uint32_t gpu) const {
    return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.device_id == gpu; });
  }
};

MultiGPUProfiler::MultiGPUProfiler(const MultiGPUConfig& config) : impl_(std::make_unique<Impl>()) {
  impl_->config = config;
}

MultiGPUProfiler::~MultiGPUProfiler() { finalize(); }

Status MultiGPUProfiler::lastStatus() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last;
}

bool MultiGPUProfiler::initialize() {
  if (impl_->profiler) return impl_->fail(Status::invalid("already initialized"));
  std::unique_ptr<IPlatformProfiler> profiler = createProfiler(impl_->config.platform);
  if (!profiler) return impl_->fail(Status::unsupported("this platform has no profiler: use cuda or sim"));
  if (!profiler->initialize(impl_->config.profiler)) return impl_->fail(profiler->lastStatus());
  std::vector<DeviceInfo> devices = profiler->getDeviceInfo();
  if (devices.empty()) return impl_->fail(Status::notFound("no GPU found"));
  std::lock_guard lock(impl_->mutex);
  impl_->devices = std::move(devices);
  for (uint32_t gpu : impl_->config.gpu_ids)
    if (!impl_->known(gpu)) return impl_->failLocked(noGpu(gpu));
  impl_->buffers[kHost];
  for (const DeviceInfo& d : impl_->devices)
    if (impl_->config.gpu_ids.empty() || std::ranges::count(impl_->config.gpu_ids, d.device_id) > 0)
      impl_->buffers[d.device_id];
  impl_->profiler = std::move(profiler);
  return true;
}

void MultiGPUProfiler::finalize() {
  if (!impl_->profiler) return;
  if (isCapturing()) stopCapture();
  impl_->profiler->finalize();
  impl_->profiler.reset();
  std::lock_guard lock(impl_->mutex);
  impl_->buffers.clear();
  impl_->transfers.clear();
}

bool MultiGPUProfiler::addGPU(uint32_t gpu) {
  if (!impl_->profiler) return impl_->fail(Status::invalid("not initialized"));
  std::lock_guard lock(impl_->mutex);
  if (!impl_->known(gpu)) return impl_->failLocked(noGpu(gpu));
  if (!impl_->buffers.try_emplace(gpu).second)
    return impl_->failLocked(Status::invalid("GPU " + std::to_string(gpu) + " is already profiled"));
  return true;
}

bool MultiGPUProfiler::removeGPU(uint32_t gpu) {
  std::lock_guard lock(impl_->mutex);
  auto found = gpu == kHost ? impl_->buffers.end() : impl_->buffers.find(gpu);
  if (found == impl_->buffers.end())
    return impl_->failLocked(Status::notFound("GPU " + std::to_string(gpu) + " is not profiled"));
  impl_->dropped_elsewhere += found->second.dropped;
  impl_->buffers.erase(found);
  return true;
}

std::vector<uint32_t> MultiGPUProfiler::getActiveGPUs() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<uint32_t> gpus;
  for (const auto& [gpu, buffer] : impl_->buffers)
    if (gpu != kHost) gpus.push_back(gpu);
  return gpus;
}

bool MultiGPUProfiler::startCapture() {
  if (!impl_->profiler) return impl_->fail(Status::invalid("not initialized"));
  if (!impl_->profiler->startCapture()) return impl_->fail(impl_->profiler->lastStatus());
  impl_->aggregator = std::thread([this] { impl_->loop(); });
  if (impl_->config.enable_nvlink_tracking) impl_->watchLinks();
  return true;
}

bool MultiGPUProfiler::stopCapture() {
  if (!impl_->profiler || !impl_->profiler->isCapturing()) return impl_->fail(Status::invalid("not capturing"));
  impl_->endLoop();
  impl_->traffic.reset();
  impl_->profiler->stopCapture();
  impl_->collect();
  return true;
}

bool MultiGPUProfiler::isCapturing() const { return impl_->profiler && impl_->profiler->isCapturing(); }

size_t MultiGPUProfiler::getEvents(std::vector<TraceEvent>& events, size_t max_count) {
  if (!impl_->profiler) return 0;
  impl_->collect();
  std::lock_guard lock(impl_->mutex);
  std::vector<TraceEvent> all;
  for (auto& [gpu, buffer] : impl_->buffers) {
    std::move(buffer.events.begin(), buffer.events.end(), std::back_inserter(all));
    buffer.events.clear();
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.timestamp < b.timestamp; });
  const size_t count = max_count ? std::min(max_count, all.size()) : all.size();
  for (size_t i = count; i < all.size(); ++i)  // the rest waits for the next call
    impl_->buffers[onGpu(all[i].type) ? all[i].device_id : kHost].events.push_back(std::move(all[i]));
  all.resize(count);
  std::move(all.begin(), all.end(), std::back_inserter(events));
  return count;
}

size_t MultiGPUProfiler::getEventsFromGPU(uint32_t gpu, std::vector<TraceEvent>& events) {
  if (!impl_->profiler || gpu == kHost) return 0;
  impl_->collect();
  std::lock_guard lock(impl_->mutex);
  auto found = impl_->buffers.find(gpu);
  if (found == impl_->buffers.end()) return 0;
  const size_t count = found->second.events.size();
  std::move(found->second.events.begin(), found->second.events.end(), std::back_inserter(events));
  found->second.events.clear();
  return count;
}

uint64_t MultiGPUProfiler::totalEventsCaptured() const {
  std::lock_guard lock(impl_->mutex);
  uint64_t all = 0;
  for (const auto& [gpu, buffer] : impl_->buffers) all += buffer.captured;
  return all;
}

uint64_t MultiGPUProfiler::eventsPerGPU(uint32_t gpu) const {
  std::lock_guard lock(impl_->mutex);
  auto found = impl_->buffers.find(gpu);
  return found == impl_->buffers.end() || gpu == kHost ? 0 : found->second.captured;
}

uint64_t MultiGPUProfiler::totalEventsDropped() const {
  uint64_t all = impl_->profiler ? impl_->profiler->eventsDropped() : 0;
  std::lock_guard lock(impl_->mutex);
  for (const auto& [gpu, buffer] : impl_->buffers) all += buffer.dropped;
  return all + impl_->dropped_elsewhere;
}

std::vector<DeviceInfo> MultiGPUProfiler::getAllDeviceInfo() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->devices;
}

DeviceInfo MultiGPUProfiler::getDeviceInfo(uint32_t gpu) const {
  std::lock_guard lock(impl_->mutex);
  for (const DeviceInfo& d : impl_->devices)
    if (d.device_id == gpu) return d;
  return {};
}

std::vector<MultiGPUProfiler::NVLinkTransfer> MultiGPUProfiler::getNVLinkTransfers() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->transfers.begin(), impl_->transfers.end()};
}

}  // namespace tracesmith::cluster
