// What the methods of the cluster's classes take and give.
#pragma once

#include "sdk/structs.hpp"
#include "tracesmith/cluster/cluster_master.hpp"
#include "tracesmith/cluster/cluster_types.hpp"
#include "tracesmith/cluster/node_aggregator.hpp"
#include "tracesmith/cluster/time_sync.hpp"

namespace tracesmith::analysis {

using CommCells = CommMatrix::Cells;
FIELDS(CommCells, bytes, count, avg_latency, world_size)

}  // namespace tracesmith::analysis

namespace tracesmith::cluster {

NAMES(TimeSyncMethod, SystemClock, NTP, PTP, CUDA, Custom)
FIELDS(TimeSyncConfig, method, ntp_server, ptp_interface, master, token_file, sync_interval_ms,
       max_acceptable_offset_ns, gpu_id)
FIELDS(SyncResult, success, offset_ns, round_trip_ns, uncertainty_ns, sync_time, message)

FIELDS(TraceRecord, path, event_count, nodes, complete)
FIELDS(ClusterTimeline, start_time, end_time, event_count, events, events_left_out, nccl_ops, cluster_topology)

FIELDS(NodeInfo, node_id, hostname, ip_address, gpu_count, gpus, topology)
FIELDS(NodeAggregatorConfig, node_id, master, listen, port, data_dir, token_file, tls_cert, tls_key, tls_ca,
       sample_interval_ms, simulated_gpus, multi_gpu_config, nccl_config, time_sync_config, aggregation_buffer_size,
       flush_interval_ms, enable_compression)
using NodeStatistics = NodeAggregator::Statistics;
FIELDS(NodeStatistics, total_events, lost_events, processes, spooled_bytes, clock_error_bound_ns, events_per_gpu,
       nccl_operations, nccl_bytes, start_time, end_time, capture_duration_sec)

FIELDS(NodeConnection, node_id, address, port, connected, healthy, info, time_offset, time_error_bound, silent_seconds,
       last_heartbeat)
FIELDS(ClusterMasterConfig, listen, listen_port, heartbeat_interval_ms, node_timeout_ms, data_dir, token_file, tls_cert,
       tls_key, tls_ca, time_sync_config, max_events_per_node, enable_streaming)
using ClusterStatistics = ClusterMaster::ClusterStatistics;
FIELDS(ClusterStatistics, total_nodes, total_gpus, total_events, total_bytes, total_nccl_ops, total_nccl_bytes,
       per_node_stats)

/// What a subscriber to a master's events gets.
struct LiveEventOf {
  std::string node_id;
  TraceEvent event;
};
FIELDS(LiveEventOf, node_id, event)

}  // namespace tracesmith::cluster
