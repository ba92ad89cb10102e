// A node of a cluster, inside a program: what `tracesmith cluster agent` runs. It collects from every process under the
// probe on this machine, keeps what it has on disk until a master has it, and comes back after any crash. What is
// captured, and when, the master says, or the program itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tracesmith/cluster/cluster_types.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

struct NodeInfo {
  std::string node_id;
  std::string hostname;
  std::string ip_address;  ///< as the node listens on it
  uint32_t gpu_count = 0;  ///< 0 until they were found: a driver may take its time
  std::vector<DeviceInfo> gpus;
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
};

class TRACESMITH_API NodeAggregator {
 public:
  explicit NodeAggregator(const NodeAggregatorConfig& config = {});
  ~NodeAggregator();

  bool initialize();  ///< false with a reason in lastError()
  void finalize();
  std::string lastError() const;

  NodeInfo getNodeInfo() const;
  bool isConnected() const;  ///< to its master
  bool isCapturing() const;

  /// A capture of this node alone, with or without a master. False with a reason in lastError().
  bool startCapture();
  bool stopCapture();
  /// What it recorded, as a trace below the data folder.
  TraceRecord exportTrace();
  /// Records taken from rings so far.
  size_t getEventCount() const;

  /// Reference (the master's clock) − this machine's raw clock, ns.
  int64_t getTimeOffset() const;

  struct Statistics {
    uint64_t total_events = 0;          ///< records taken from rings
    uint64_t lost_events = 0;           ///< counted, by cause in the trace
    uint32_t processes = 0;             ///< under the probe now
    uint64_t spooled_bytes = 0;         ///< that the master does not have yet
    int64_t clock_error_bound_ns = -1;  ///< −1: not known
  };
  Statistics getStatistics() const;

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
