// The master of a cluster, inside a program: what `tracesmith cluster master` runs, with what its commands can ask.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracesmith/cluster/cluster_types.hpp"
#include "tracesmith/cluster/comm_analysis.hpp"
#include "tracesmith/cluster/node_aggregator.hpp"
#include "tracesmith/common/export.hpp"
#include "tracesmith/common/types.hpp"

namespace tracesmith::cluster {

struct NodeConnection {
  std::string node_id;
  std::string address;  ///< host
  uint16_t port = 0;
  bool connected = false;
  bool healthy = false;  ///< it reported within node_timeout_ms
  NodeInfo info;
  int64_t time_offset = 0;                  ///< ns; means nothing without a time_error_bound
  std::optional<int64_t> time_error_bound;  ///< ns; empty: the clock was not compared yet
  double silent_seconds = 0;
  Timestamp last_heartbeat = 0;  ///< Unix ns of the master
};

struct ClusterMasterConfig {
  std::string listen = "127.0.0.1";  ///< beyond this machine a token file is needed
  uint16_t listen_port = 50051;      ///< 0: any
  uint32_t heartbeat_interval_ms = 5000;
  uint32_t node_timeout_ms = 30000;
  std::string data_dir = "tracesmith-data";
  std::string token_file;
  std::string tls_cert, tls_key, tls_ca;  ///< PEM files, as `tracesmith cluster certs` makes them
  /// The master's own clock is the reference. With NTP or PTP it must agree with that source when the master starts, to
  /// max_acceptable_offset_ns.
  TimeSyncConfig time_sync_config;
  size_t max_events_per_node = 10 * 1024 * 1024;  ///< that buildClusterTimeline() takes into memory
  bool enable_streaming = true;                   ///< false: subscribeToEvents() is refused
};

class TRACESMITH_API ClusterMaster {
 public:
  explicit ClusterMaster(const ClusterMasterConfig& config = {});
  ~ClusterMaster();

  bool start();  ///< false with a reason in lastError()
  void stop();
  bool isRunning() const;
  uint16_t port() const;
  std::string lastError() const { return lastStatus().message(); }
  /// The reason for the last failure.
  Status lastStatus() const;

  /// Connects to an agent and adds its node.
  bool registerNode(const std::string& address, uint16_t port);
  /// Removes a node that is not connected.
  bool unregisterNode(const std::string& node_id);
  std::vector<NodeConnection> getConnectedNodes() const;
  bool isNodeConnected(const std::string& node_id) const;

  /// One capture at a time. For named sessions, use the commands.
  bool startClusterCapture();
  /// Waits until every node has delivered, at most `wait_seconds`.
  bool stopClusterCapture(double wait_seconds = 30);

  /// Agents compare their clocks all the time. Waits until every connected node has reported its clock again, and its
  /// offset is known; lastStatus() says whether it is.
  void synchronizeClusterTime();
  std::map<std::string, int64_t> getNodeTimeOffsets() const;

  struct ClusterStatistics {
    uint32_t total_nodes = 0;
    uint32_t total_gpus = 0;
    uint64_t total_events = 0;                          ///< stored
    uint64_t total_bytes = 0;                           ///< stored
    uint64_t total_nccl_ops = 0, total_nccl_bytes = 0;  ///< of the last capture that has ended
    std::map<std::string, NodeAggregator::Statistics> per_node_stats;
  };
  ClusterStatistics getClusterStatistics() const;

  /// Called for every event agents send from now on, in a thread of its own, with times in Unix ns. A callback that is
  /// too slow loses events, which eventsLost() counts; it slows down nothing else. False with a reason in lastError().
  using EventCallback = std::function<void(const std::string& node_id, const tracesmith::TraceEvent& event)>;
  bool subscribeToEvents(EventCallback callback);
  void unsubscribeFromEvents();
  uint64_t eventsLost() const;

  /// The last capture, of all nodes, in a file of its own below the data folder.
  TraceRecord collectAllTraces();
  /// The same for these nodes only.
  TraceRecord collectTracesFromNodes(const std::vector<std::string>& node_ids);
  using ClusterTimeline = cluster::ClusterTimeline;
  /// The last capture in the order of the corrected clock, loaded. Empty, with a reason in its lastError(), if it
  /// fails.
  ClusterTimeline buildClusterTimeline();
  /// Who sent how much to whom in the last capture.
  CommAnalysis::CommMatrix getClusterCommMatrix() const;

  /// The last capture, all nodes in one file.
  bool exportToSBT(const std::string& filename);
  bool exportToPerfetto(const std::string& filename);
  /// Chrome trace JSON. These two put all nodes on one clock.
  bool exportToJSON(const std::string& filename);

 private:
  struct TRACESMITH_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tracesmith::cluster
