#include "tracesmith/capture/profiler.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "capture/api/cuda_devices.hpp"
#include "capture/api/ring_source.hpp"
#include "model/event/trace_event.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith {

using ring::Kind;
using ring::Record;

const char* eventTypeName(EventType type) {
  static constexpr const char* kNames[] = {
      "Unknown",       "KernelLaunch",  "KernelComplete", "MemcpyH2D",   "MemcpyD2H", "MemcpyD2D",
      "MemsetDevice",  "StreamSync",    "DeviceSync",     "EventRecord", "EventSync", "StreamCreate",
      "StreamDestroy", "ContextCreate", "ContextDestroy", "MemAlloc",    "MemFree",   "Marker",
      "RangeStart",    "RangeEnd",      "NCCLStart",      "NCCLComplete"};
  const auto i = static_cast<size_t>(type);
  return i < std::size(kNames) ? kNames[i] : "Custom";
}

const char* platformName(PlatformType type) {
  return type == PlatformType::CUDA ? "cuda" : type == PlatformType::Sim ? "sim" : "unknown";
}

PlatformType platformFromName(const std::string& s) {
  return s == "cuda" ? PlatformType::CUDA : s == "sim" ? PlatformType::Sim : PlatformType::Unknown;
}

PlatformType detectPlatform() { return capture::cudaDeviceCount() > 0 ? PlatformType::CUDA : PlatformType::Unknown; }

namespace {

/// Names by string id; C++ names of kernels.
class NameTable {
 public:
  const std::string& get(uint32_t id, std::string_view text) {
    auto [it, fresh] = names_.try_emplace(id);
    if (!fresh) return it->second;
    it->second = text;
    if (!text.starts_with("_Z")) return it->second;
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(it->second.c_str(), nullptr, nullptr, &status),
                                                    std::free);
    if (status == 0 && readable) it->second = readable.get();
    return it->second;
  }

 private:
  std::unordered_map<uint32_t, std::string> names_;
};

class RingProfiler : public IPlatformProfiler {
 public:
  explicit RingProfiler(PlatformType type) : type_(type) {}

  PlatformType platformType() const override { return type_; }

  bool initialize(const ProfilerConfig& config) override {
    std::lock_guard lock(mutex_);
    if (source_) return fail(Status::invalid("already initialized"));
    if (config.mode != "light" && config.mode != "default" && config.mode != "full")
      return fail(Status::invalid("mode must be light, default or full"));
    Result<std::unique_ptr<capture::RingSource>> source = capture::RingSource::open(type_, config);
    if (!source) return fail(source.status());
    source_ = std::move(*source);
    names_.resize(source_->rings());
    lane_tids_.resize(source_->rings());
    return true;
  }

  void finalize() override {
    std::lock_guard lock(mutex_);
    source_.reset();
    waiting_.clear();
  }

  bool startCapture() override {
    std::lock_guard lock(mutex_);
    if (!source_) return fail(Status::invalid("not initialized"));
    if (source_->recording()) return fail(Status::invalid("already capturing"));
    source_->setRecording(true);
    return true;
  }

  bool stopCapture() override {
    std::lock_guard lock(mutex_);
    if (!source_ || !source_->recording()) return fail(Status::invalid("not capturing"));
    source_->setRecording(false);
    fetch();
    return true;
  }

  bool isCapturing() const override {
    std::lock_guard lock(mutex_);
    return source_ && source_->recording();
  }

  size_t getEvents(std::vector<TraceEvent>& events, size_t max_count) override {
    std::lock_guard lock(mutex_);
    if (!source_) return 0;
    fetch();
    const size_t count = max_count ? std::min(max_count, waiting_.size()) : waiting_.size();
    for (size_t i = 0; i < count; ++i) {
      events.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    captured_ += count;
    return count;
  }

  std::vector<DeviceInfo> getDeviceInfo() const override {
    if (type_ == PlatformType::CUDA) return capture::cudaDevices();
    std::lock_guard lock(mutex_);
    std::vector<DeviceInfo> all;
    for (size_t i = 0; source_ && i < source_->rings(); ++i) {
      DeviceInfo d;
      d.device_id = static_cast<uint32_t>(source_->header(i).local_rank.load());
      d.name = "Simulated H100";
      d.vendor = trace::kSimulated;
      d.simulated = true;
      all.push_back(std::move(d));
    }
    return all;
  }

  uint64_t eventsCaptured() const override {
    std::lock_guard lock(mutex_);
    return captured_;
  }
  uint64_t eventsDropped() const override {
    std::lock_guard lock(mutex_);
    return (source_ ? source_->lost() : 0) + overflow_;
  }
  Status lastStatus() const override {
    std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  bool fail(const Status& status) {
    last_ = status;
    return false;
  }

  void fetch() {
    source_->poll([&](size_t ring, uint32_t lane, const Record& r) { take(ring, lane, r); });
  }

  void take(size_t ring, uint32_t lane, const Record& r) {
    using RowType = trace::EventType;
    auto text = [&](uint32_t id) { return source_->string(ring, id); };
    auto typed = [&](RowType type) { return model::publicType(type, text(r.name)); };
    TraceEvent e;
    e.timestamp = r.start;
    e.duration = r.end > r.start ? r.end - r.start : 0;
    e.device_id = r.device;
    e.stream_id = r.stream;
    e.correlation_id = r.correlation;
    ring::Name name{r.name};
    switch (r.kind) {
      case Kind::thread:
        lane_tids_[ring][lane] = static_cast<uint32_t>(threadOf(r).thread);
        return;
      case Kind::kernel:
        e.type = typed(RowType::kernel);
        e.kernel_params = model::kernelParams(text(kernelOf(r).launch));
        break;
      case Kind::memcpy:
      case Kind::memset: {
        const ring::CopyRecord c = copyOf(r);
        e.type = typed(c.set ? RowType::memset : RowType::memcpy);
        e.memory_params = MemoryParams{c.bytes, {}, {}};
        if (c.from != ring::kNoDevice) {
          e.memory_params->src_device = c.from;
          e.memory_params->dst_device = c.to;
        }
        break;
      }
      case Kind::runtime:
      case Kind::driver:
        e.type = typed(RowType::runtime);
        e.thread_id = callOf(r).thread;
        e.device_id = e.stream_id = 0;
        break;
      case Kind::sync:
        e.type = typed(RowType::sync);
        if (syncOf(r).stream == ring::kNoStream) e.stream_id = 0;
        break;
      case Kind::range:
      case Kind::mark: {
        const ring::RangeRecord range = rangeOf(r);
        e.type = typed(range.mark ? RowType::marker : RowType::annotation);
        e.thread_id = range.thread ? range.thread : lane_tids_[ring][lane];
        e.device_id = e.stream_id = 0;
        name = range.name;
        break;
      }
      default:
        return;  // NCCLTracker reads NCCL's records
    }
    e.name = name.numbered ? source_->text(ring, name) : names_[ring].get(name.id, text(name.id));
    if (source_->simulated()) e.metadata["simulated"] = "true";
    if (int32_t rank = source_->header(ring).rank.load(); rank >= 0) e.metadata["rank"] = std::to_string(rank);
    if (waiting_.size() < kMostWaiting)
      waiting_.push_back(std::move(e));
    else
      ++overflow_;
  }

  static constexpr size_t kMostWaiting = 1 << 22;

  const PlatformType type_;
  mutable std::mutex mutex_;
  std::unique_ptr<capture::RingSource> source_;
  std::vector<NameTable> names_;
  std::vector<std::unordered_map<uint32_t, uint32_t>> lane_tids_;
  std::deque<TraceEvent> waiting_;
  uint64_t captured_ = 0, overflow_ = 0;
  Status last_;
};

}  // namespace

std::unique_ptr<IPlatformProfiler> createProfiler(PlatformType type) {
  if (type == PlatformType::Unknown) return nullptr;
  return std::make_unique<RingProfiler>(type);
}

}  // namespace tracesmith
