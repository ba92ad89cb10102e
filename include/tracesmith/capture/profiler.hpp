// Profiling from inside a program: what this process and its GPUs do. (To profile a program you did not write, use
// `tracesmith run`.)
//
//   auto profiler = tracesmith::createProfiler(tracesmith::detectPlatform());
//   profiler->initialize({});     // before the first CUDA call
//   profiler->startCapture();
//   …
//   profiler->stopCapture();
//   std::vector<tracesmith::TraceEvent> events;
//   profiler->getEvents(events);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith {

enum class PlatformType {
  Unknown,
  CUDA,  ///< NVIDIA GPUs, by the probe (libtracesmith_probe.so) and CUPTI
  Sim,   ///< simulated GPUs in a simulated training job: everything it gives is marked as simulated
};
TRACESMITH_API const char* platformName(PlatformType type);          ///< "cuda", "sim"
TRACESMITH_API PlatformType platformFromName(const std::string& s);  ///< Unknown for another name
/// CUDA where this machine has an NVIDIA GPU, else Unknown. Never Sim: that must be asked for.
TRACESMITH_API PlatformType detectPlatform();

/// The simulated job of PlatformType::Sim.
struct SimConfig {
  uint32_t gpus = 8;
  uint64_t seed = 1;
  double step_ms = 50;
  double speed = 1;                 ///< simulated seconds per second
  uint64_t steps = 0;               ///< 0: until stopped
  std::vector<std::string> faults;  ///< as `tracesmith synth --fault` takes them: "slow-gpu=3:1.2", "hang=1:40", …
};

struct ProfilerConfig {
  size_t buffer_size = 1024 * 1024;  ///< records the ring holds; the oldest unfetched are overwritten, and counted
  std::string mode = "default";      ///< light, default or full, as in `tracesmith run`
  SimConfig sim;
};

/// One platform's profiler. A call that returns false leaves the reason in lastStatus(). Thread safe.
class TRACESMITH_API IPlatformProfiler {
 public:
  virtual ~IPlatformProfiler() = default;

  virtual PlatformType platformType() const = 0;
  virtual bool initialize(const ProfilerConfig& config) = 0;
  virtual void finalize() = 0;

  virtual bool startCapture() = 0;
  virtual bool stopCapture() = 0;
  virtual bool isCapturing() const = 0;

  /// Appends what was captured since the last call, at most max_count (0: all); returns how many. Events of one
  /// stream or thread are in order, those of several are not.
  virtual size_t getEvents(std::vector<TraceEvent>& events, size_t max_count = 0) = 0;
  virtual std::vector<DeviceInfo> getDeviceInfo() const = 0;
  /// Events handed out so far, and records that were lost for any reason.
  virtual uint64_t eventsCaptured() const = 0;
  virtual uint64_t eventsDropped() const = 0;
  /// The reason for the last failure.
  virtual Status lastStatus() const = 0;
  std::string lastError() const { return lastStatus().message(); }
};

/// nullptr for Unknown.
TRACESMITH_API std::unique_ptr<IPlatformProfiler> createProfiler(PlatformType type);

}  // namespace tracesmith
