// A node of a cluster, inside a program: what `tracesmith cluster agent` runs. It collects from every process under the
// probe on this machine, keeps the data on disk until a master has stored it, and continues after a crash.
// The master, or the program itself, decides what is captured and when.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/capture/multi_gpu_profiler.hpp"
#include "tracesmith/capture/nccl_tracker.hpp"
#include "tracesmith/cluster/cluster_types.hpp"
#include "tracesmith/cluster/time_sync.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/status.hpp"
#include "tracesmith/common/types.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith::cluster {

struct NodeInfo {
  std::string node_id;
  std::string hostname;
  std::string ip_address;  ///< as the node listens on it
  uint32_t gpu_count = 0;  ///< 0 until they are found, which may take the driver a while
  std::vector<DeviceInfo> gpus;
  GPUTopologyInfo topology;  ///< how they are connected, with what `tracesmith bench links` measured
};

struct NodeAggregatorConfig {
  std::string node_id;               ///< empty: the host name
  std::string master;                ///< HOST:PORT; empty: wait until a master adds this node
  std::string listen = "127.0.0.1";  ///< beyond this machine a token file is needed
  uint16_t port = 50052;             ///< 0: any
  std::string data_dir = "tracesmith-data";
  std::string token_file;
  std::string tls_cert, tls_key, tls_ca;  ///< PEM files, as `tracesmith cluster certs` makes them
  uint32_t sample_interval_ms = 500;      ///< telemetry, where a session does not say
  int simulated_gpus = 0;

  /// With platform Sim its simulated GPUs are those of the node, as with simulated_gpus. An agent records all GPUs.
  MultiGPUConfig multi_gpu_config;
  /// Which operations getNCCLOperations() gives: comm_filter, max_operations.
  NCCLTrackerConfig nccl_config;
  /// What the node's clock is compared with. NTP and PTP need a master that keeps the same time; any other method is
  /// the exchange with the master.
  TimeSyncConfig time_sync_config = {.method = TimeSyncMethod::Custom};
  size_t aggregation_buffer_size = 10 * 1024 * 1024;  ///< events in a file of the spool, about
  uint32_t flush_interval_ms = 20;                    ///< how often the rings are emptied; more often if they fill fast
  bool enable_compression = true;                     ///< changes nothing: blocks of traces are always compressed
};

class TRACESMITH_API NodeAggregator {
 public:
  explicit NodeAggregator(const NodeAggregatorConfig& config = {});
  ~NodeAggregator();

  bool initialize();  ///< false with a reason in lastError()
  void finalize();
  std::string lastError() const;
  /// Why the last call failed; ok if it did not.
  Status lastStatus() const;

  NodeInfo getNodeInfo() const;
  bool isConnected() const;  ///< to its master
  bool isCapturing() const;

  /// A capture of this node alone, with or without a master. False with a reason in lastError().
  bool startCapture();
  bool stopCapture();
  /// What it recorded, as a trace below the data folder.
  TraceRecord exportTrace();
  /// The same as the bytes of a trace file (docs/format.md). Its blocks are compressed, whatever `compress` says. Empty
  /// if it failed.
  std::vector<uint8_t> serializeEvents(bool compress = true);
  /// The communication operations of the last capture that has ended, in order of time.
  std::vector<NCCLOperation> getNCCLOperations() const;
  /// Records taken from rings so far.
  size_t getEventCount() const;

  /// Compares the clock now, in addition to the periodic comparisons. lastStatus() says whether it succeeded.
  void synchronizeTime();
  /// Reference (the master's clock) − this machine's raw clock, ns.
  int64_t getTimeOffset() const;

  struct Statistics {
    uint64_t total_events = 0;                    ///< records taken from rings
    uint64_t lost_events = 0;                     ///< counted, by cause in the trace
    uint32_t processes = 0;                       ///< under the probe now
    uint64_t spooled_bytes = 0;                   ///< not yet stored by the master
    std::optional<int64_t> clock_error_bound_ns;  ///< empty: the clock was not compared yet

    /// Of the last capture that has ended; all 0 before.
    uint64_t events_per_gpu[16] = {};
    uint64_t nccl_operations = 0;
    uint64_t nccl_bytes = 0;
    Timestamp start_time = 0, end_time = 0;  ///< Unix ns
    double capture_duration_sec = 0;
  };
  Statistics getStatistics() const;

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
