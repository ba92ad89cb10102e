// This machine's clock against another: the system clock, an NTP server, a PTP hardware clock, the GPU's clock, or a
// TraceSmith master. A method that cannot measure fails with a reason.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

enum class TimeSyncMethod {
  SystemClock,  ///< CLOCK_REALTIME; its own error as the kernel states it (adjtimex), where it is synchronised
  NTP,          ///< an NTP server, asked by our own SNTP client
  PTP,          ///< the hardware clock of a network interface, or of the hypervisor
  CUDA,         ///< the clock of a GPU, read by a kernel of one thread
  Custom        ///< our own exchange with a TraceSmith master
};

struct TimeSyncConfig {
  TimeSyncMethod method = TimeSyncMethod::SystemClock;
  std::string ntp_server = "pool.ntp.org";  ///< HOST or HOST:PORT; "chrony": the state of this machine's chronyd
  std::string ptp_interface = "eth0";       ///< a network interface, or a device: /dev/ptp0
  std::string master = "127.0.0.1:50051";   ///< Custom: HOST:PORT
  std::string token_file = "";              ///< Custom: for a master that requires a token
  uint32_t sync_interval_ms = 1000;
  int64_t max_acceptable_offset_ns = 1'000'000;  ///< a larger uncertainty counts as failure
  uint32_t gpu_id = 0;                           ///< CUDA: the driver's number of the GPU
};

struct SyncResult {
  bool success = false;
  int64_t offset_ns = 0;                 ///< reference − this machine's raw clock (CLOCK_MONOTONIC_RAW)
  int64_t round_trip_ns = 0;             ///< of network methods
  std::optional<double> uncertainty_ns;  ///< the error is at most this; empty: nothing was measured
  Timestamp sync_time = 0;               ///< local clock
  std::string message;                   ///< why it did not succeed
};

/// Thread safe.
class TRACESMITH_API TimeSync {
 public:
  explicit TimeSync(const TimeSyncConfig& config = {});
  ~TimeSync();

  /// Opens what the method needs. With sync_interval_ms > 0, a thread then synchronises periodically.
  bool initialize();
  void finalize();
  /// Why the last call failed; ok if it did not.
  Status lastStatus() const;
  std::string lastError() const { return lastStatus().message(); }

  SyncResult synchronize();
  /// Compares with the master at HOST:PORT, whatever the method. Given the name of a node, compares with that node's
  /// raw clock, as the configured master knows it.
  SyncResult synchronizeWithNode(const std::string& node_id);

  Timestamp toSynchronizedTime(Timestamp local_time) const;
  Timestamp toLocalTime(Timestamp sync_time) const;

  int64_t getCurrentOffset() const;
  /// Uses this offset from now on, whatever is measured.
  void setManualOffset(int64_t offset_ns);

  /// Reads the clock of a GPU, by its CUDA index. This creates a context on the GPU, which takes memory there.
  void correlateGPUTimestamps(uint32_t gpu_id);
  /// GPU's clock − this machine's raw clock, ns, as last correlated; 0 if it was not.
  int64_t getGPUOffset(uint32_t gpu_id) const;

  /// Over the results that succeeded.
  double getAverageOffset() const;
  double getOffsetStdDev() const;

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
