#include "tracesmith/cluster/time_sync.hpp"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "cluster/rpc/client.hpp"
#include "hardware/nvidia/gpu_clock.hpp"
#include "sync/clock_fit.hpp"
#include "sync/exchange.hpp"
#include "sync/sources.hpp"

namespace tracesmith::cluster {
namespace {

constexpr int kBurst = 8;
constexpr size_t kMostResults = 4096;

}  // namespace

struct TimeSync::Impl {
  TimeSyncConfig config;

  std::mutex asking;  // one measurement at a time; guards what follows
  sync::ClockFit fit;
  std::unique_ptr<Client> client;
  std::string client_address;
  std::unique_ptr<cuda::Driver> cuda;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  sync::ClockModel model;
  bool manual = false, stop = false;
  std::deque<SyncResult> history;  // that succeeded
  std::map<uint32_t, int64_t> gpu_offsets;
  Status last;
  std::thread thread;

  Result<sync::Comparison> askMaster(const std::string& address) {
    if (!client || client_address != address) {
      ClientOptions options;
      options.master = address;
      options.security.token_file = config.token_file;
      Result<std::unique_ptr<Client>> opened = connectClient(options);
      if (!opened) return opened.status();
      client = std::move(*opened);
      client_address = address;
      fit = sync::ClockFit();
    }
    Result<std::vector<sync::Exchange>> burst = client->syncTime(kBurst);
    if (!burst) return burst.status();
    fit.add(*burst);
    const sync::ClockModel m = fit.at(rawClock());
    return sync::Comparison{m.at_ns, m.offset_ns, m.bound_ns, fit.bestDelay()};
  }

  /// A node's raw clock: ours and its own against the master's, one after the other.
  Result<sync::Comparison> askNode(const std::string& node) {
    Result<sync::Comparison> ours = askMaster(config.master);
    if (!ours) return ours;
    Result<ClusterStatus> cluster = client->status();
    if (!cluster) return cluster.status();
    for (const NodeStatus& n : cluster->nodes) {
      if (n.node != node) continue;
      if (!n.clock) return Status::invalid("the clock of node " + node + " is not known yet");
      ours->offset_ns -= n.clock->offset_ns;
      if (ours->bound_ns) *ours->bound_ns += n.clock->bound_ns;
      return ours;
    }
    return Status::notFound("the master at " + config.master + " knows no node " + node);
  }

  Result<sync::Comparison> askGpu(uint32_t gpu) {
    if (!cuda) {
      Result<std::unique_ptr<cuda::Driver>> driver = cuda::Driver::open();
      if (!driver) return driver.status();
      cuda = std::move(*driver);
    }
    Result<cuda::ClockReading> r = cuda::readGpuClock(*cuda, gpu);
    if (!r) return r.status();
    std::lock_guard lock(mutex);
    gpu_offsets[gpu] = r->offset_ns;
    return sync::Comparison{r->raw_ns, r->offset_ns, r->bound_ns, r->round_trip_ns};
  }

  Result<sync::Comparison> ask() {
    switch (config.method) {
      case TimeSyncMethod::SystemClock:
        return sync::askSystem();
      case TimeSyncMethod::NTP:
        return sync::ask({sync::Source::Kind::ntp, config.ntp_server});
      case TimeSyncMethod::PTP:
        return sync::askPtp(config.ptp_interface);
      case TimeSyncMethod::Custom:
        return askMaster(config.master);
      case TimeSyncMethod::CUDA:
        return askGpu(config.gpu_id);
    }
    return Status::invalid("no such method");
  }

  SyncResult failed(const Status& status, SyncResult result = {}) {
    result.message = status.message();
    if (result.sync_time == 0) result.sync_time = static_cast<Timestamp>(rawClock());
    std::lock_guard lock(mutex);
    last = status;
    return result;
  }

  SyncResult take(const Result<sync::Comparison>& measured) {
    if (!measured) return failed(measured.status());
    SyncResult result;
    result.offset_ns = measured->offset_ns;
    result.round_trip_ns = measured->round_trip_ns;
    if (measured->bound_ns) result.uncertainty_ns = static_cast<double>(*measured->bound_ns);
    result.sync_time = static_cast<Timestamp>(measured->raw_ns);
    if (!measured->bound_ns) return failed(Status::invalid("this machine's clock is not synchronised"), result);
    if (*measured->bound_ns > config.max_acceptable_offset_ns)
      return failed(Status::invalid("the clock is known only to within " + std::to_string(*measured->bound_ns) +
                                    " ns, which is more than is acceptable"),
                    result);
    result.success = true;
    std::lock_guard lock(mutex);
    last = {};
    history.push_back(result);
    if (history.size() > kMostResults) history.pop_front();
    if (manual) return result;
    model.at_ns = measured->raw_ns;
    model.offset_ns = measured->offset_ns;
    model.bound_ns = *measured->bound_ns;
    model.drift_ppm = config.method == TimeSyncMethod::Custom ? fit.at(measured->raw_ns).drift_ppm : 0;
    return result;
  }
};

TimeSync::TimeSync(const TimeSyncConfig& config) : impl_(std::make_unique<Impl>()) { impl_->config = config; }
TimeSync::~TimeSync() { finalize(); }

bool TimeSync::initialize() {
  if (!synchronize().success) return false;
  if (impl_->config.sync_interval_ms == 0 || impl_->thread.joinable()) return true;
  impl_->stop = false;
  impl_->thread = std::thread([this] {
    std::unique_lock lock(impl_->mutex);
    const auto period = std::chrono::milliseconds(impl_->config.sync_interval_ms);
    while (!impl_->changed.wait_for(lock, period, [&] { return impl_->stop; })) {
      lock.unlock();
      (void)synchronize();
      lock.lock();
    }
  });
  return true;
}

void TimeSync::finalize() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

SyncResult TimeSync::synchronize() {
  std::lock_guard lock(impl_->asking);
  return impl_->take(impl_->ask());
}

SyncResult TimeSync::synchronizeWithNode(const std::string& node_id) {
  std::lock_guard lock(impl_->asking);
  const bool address = node_id.find(':') != std::string::npos;
  return impl_->take(address ? impl_->askMaster(node_id) : impl_->askNode(node_id));
}

void TimeSync::correlateGPUTimestamps(uint32_t gpu_id) {
  std::lock_guard asking(impl_->asking);
  const Result<sync::Comparison> measured = impl_->askGpu(gpu_id);
  std::lock_guard lock(impl_->mutex);
  impl_->last = measured.status();
}

int64_t TimeSync::getGPUOffset(uint32_t gpu_id) const {
  std::lock_guard lock(impl_->mutex);
  const auto found = impl_->gpu_offsets.find(gpu_id);
  return found == impl_->gpu_offsets.end() ? 0 : found->second;
}

Status TimeSync::lastStatus() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->last;
}

Timestamp TimeSync::toSynchronizedTime(Timestamp local_time) const {
  std::lock_guard lock(impl_->mutex);
  return static_cast<Timestamp>(impl_->model.toReference(static_cast<int64_t>(local_time)));
}

Timestamp TimeSync::toLocalTime(Timestamp sync_time) const {
  std::lock_guard lock(impl_->mutex);
  return static_cast<Timestamp>(impl_->model.toRaw(static_cast<int64_t>(sync_time)));
}

int64_t TimeSync::getCurrentOffset() const {
  const int64_t now = rawClock();
  std::lock_guard lock(impl_->mutex);
  return impl_->model.toReference(now) - now;
}

void TimeSync::setManualOffset(int64_t offset_ns) {
  std::lock_guard lock(impl_->mutex);
  impl_->manual = true;
  impl_->model = {};
  impl_->model.offset_ns = offset_ns;
}

double TimeSync::getAverageOffset() const {
  std::lock_guard lock(impl_->mutex);
  if (impl_->history.empty()) return 0;
  // Around the first: offsets of Unix times are too large to be added up.
  const int64_t first = impl_->history.front().offset_ns;
  double sum = 0;
  for (const SyncResult& r : impl_->history) sum += static_cast<double>(r.offset_ns - first);
  return static_cast<double>(first) + sum / static_cast<double>(impl_->history.size());
}

double TimeSync::getOffsetStdDev() const {
  std::lock_guard lock(impl_->mutex);
  const size_t n = impl_->history.size();
  if (n < 2) return 0;
  const int64_t first = impl_->history.front().offset_ns;
  double sum = 0, squares = 0;
  for (const SyncResult& r : impl_->history) {
    const auto d = static_cast<double>(r.offset_ns - first);
    sum += d;
    squares += d * d;
  }
  const double mean = sum / static_cast<double>(n);
  return std::sqrt(std::max(0.0, (squares - static_cast<double>(n) * mean * mean) / static_cast<double>(n - 1)));
}

}  // namespace tracesmith::cluster
