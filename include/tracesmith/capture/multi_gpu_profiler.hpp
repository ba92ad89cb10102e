// All GPUs of this machine that the process uses, each with its own buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/capture/profiler.hpp"
#include "tracesmith/common/export.hpp"

namespace tracesmith::cluster {

struct MultiGPUConfig {
  std::vector<uint32_t> gpu_ids;             ///< GPUs to profile (empty = all)
  size_t per_gpu_buffer_size = 1024 * 1024;  ///< events kept for each GPU until they are fetched; more are counted
  bool enable_nvlink_tracking = true;        ///< NVLinkTransfer: copies from GPU to GPU, and what the links count
  uint32_t nvlink_interval_ms = 1000;        ///< how often the links' counters are read
  bool enable_peer_access_tracking = true;   ///< keep the copies from GPU to GPU among the events
  uint32_t aggregation_interval_ms = 100;
  PlatformType platform = PlatformType::CUDA;
  ProfilerConfig profiler;
};

class TRACESMITH_API MultiGPUProfiler {
 public:
  explicit MultiGPUProfiler(const MultiGPUConfig& config = {});
  ~MultiGPUProfiler();
  MultiGPUProfiler(const MultiGPUProfiler&) = delete;
  MultiGPUProfiler& operator=(const MultiGPUProfiler&) = delete;

  /// Before the program's first CUDA call. False with a reason in lastError().
  bool initialize();
  void finalize();
  /// The reason for the last failure.
  Status lastStatus() const;
  std::string lastError() const { return lastStatus().message(); }

  bool addGPU(uint32_t gpu_id);     ///< false if there is no such GPU, or it was added before
  bool removeGPU(uint32_t gpu_id);  ///< its events are gone
  std::vector<uint32_t> getActiveGPUs() const;

  bool startCapture();
  bool stopCapture();
  bool isCapturing() const;

  /// Appends events of all GPUs and of the host in order of time and forgets them; at most max_count (0: all).
  size_t getEvents(std::vector<TraceEvent>& events, size_t max_count = 0);
  /// Events on one GPU.
  size_t getEventsFromGPU(uint32_t gpu_id, std::vector<TraceEvent>& events);

  uint64_t totalEventsCaptured() const;
  uint64_t eventsPerGPU(uint32_t gpu_id) const;
  /// Full buffers and records lost before they came here.
  uint64_t totalEventsDropped() const;

  std::vector<DeviceInfo> getAllDeviceInfo() const;
  DeviceInfo getDeviceInfo(uint32_t gpu_id) const;

  /// A copy from one GPU to another, or what a link carried between two readings of its counter (which
  /// includes copies, and what kernels and NCCL sent).
  struct NVLinkTransfer {
    uint32_t src_gpu;
    uint32_t dst_gpu;  ///< kUnknownGPU: behind a switch
    size_t bytes;
    Timestamp timestamp;
    uint64_t duration_ns;
    bool counted = false;  ///< by the link
  };
  static constexpr uint32_t kUnknownGPU = UINT32_MAX;
  /// The last of them, at most per_gpu_buffer_size.
  std::vector<NVLinkTransfer> getNVLinkTransfers() const;

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
