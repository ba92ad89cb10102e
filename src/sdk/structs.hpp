// What the methods of the C API take and give, listed once: the structs of the public headers, and a few of its own.
// What needs gRPC is in sdk/cluster.
#pragma once

#include "sdk/json.hpp"
#include "tracesmith/capture/multi_gpu_profiler.hpp"
#include "tracesmith/capture/nccl_tracker.hpp"
#include "tracesmith/capture/profiler.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"

namespace tracesmith {

NAMES_BY(EventType, eventTypeName, 256)
NAMES_BY(PlatformType, platformName, 3)
FIELDS(KernelParams, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_mem_bytes, registers_per_thread)
FIELDS(MemoryParams, size_bytes, src_device, dst_device)
FIELDS(TraceEvent, type, timestamp, duration, device_id, stream_id, correlation_id, thread_id, name, kernel_params,
       memory_params, metadata)
FIELDS(DeviceInfo, device_id, name, vendor, pci_bus_id, total_memory, compute_major, compute_minor,
       multiprocessor_count, clock_rate_khz, memory_clock_khz, memory_bus_bits, warp_size, simulated)
FIELDS(SimConfig, gpus, seed, step_ms, speed, steps, faults)
FIELDS(ProfilerConfig, buffer_size, mode, sim)

}  // namespace tracesmith

namespace tracesmith::cluster {

FIELDS(MultiGPUConfig, gpu_ids, per_gpu_buffer_size, enable_nvlink_tracking, nvlink_interval_ms,
       enable_peer_access_tracking, aggregation_interval_ms, platform, profiler)
using NVLinkTransfer = MultiGPUProfiler::NVLinkTransfer;
FIELDS(NVLinkTransfer, src_gpu, dst_gpu, bytes, timestamp, duration_ns, counted)

NAMES_BY(NCCLOpType, ncclOpName, 11)
NAMES(NCCLRedOp, Sum, Prod, Max, Min, Avg, Unknown)
NAMES(NCCLDataType, Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, BFloat16, Float8e4m3,
      Float8e5m2, Unknown)
FIELDS(NCCLOperation, op_id, nccl_seq, op_type, red_op, data_type, comm_id, rank, world_size, group_id, call_stack,
       algo, count, data_size, enqueue_time, start_time, end_time, duration_ns, in_flight, algbw_gbps, busbw_gbps,
       peer_rank, cuda_stream, device_id, correlation_id, simulated)
FIELDS(NCCLTrackerConfig, hook_enabled, track_all_comms, comm_filter, capture_call_stack, max_operations,
       poll_interval_ms, platform, profiler)
using NCCLStatistics = NCCLTracker::Statistics;
FIELDS(NCCLStatistics, total_operations, total_bytes_transferred, total_duration_ns, ops_by_type, bytes_by_type,
       duration_by_type)

NAMES_BY(GPULinkType, linkTypeName, 8)
FIELDS(GPULink, gpu_a, gpu_b, type, link_count, bandwidth_gbps, measured_bandwidth)
FIELDS(GPUTopologyInfo, gpu_count, has_nvswitch, links, link_matrix)

}  // namespace tracesmith::cluster

namespace tracesmith::sdk {

/// "name": {…} of each struct above.
void describeSharedStructs(JsonWriter& w);

struct NoConfig {};
FIELDS(NoConfig)

struct TraceConfig {
  std::string path;
  std::string memory;    ///< that SQL may use: "2GB"; empty: half of the machine's
  uint32_t threads = 0;  ///< 0: all cores
};
FIELDS(TraceConfig, path, memory, threads)

struct AnalyzeConfig {
  std::string comm_rules;  ///< a file, as `tracesmith analyze --comm-rules` takes it
};
FIELDS(AnalyzeConfig, comm_rules)

struct DiffConfig {
  std::string comm_rules;
  std::optional<int64_t> rank, step;  ///< whose events are compared by name; absent: the first
};
FIELDS(DiffConfig, comm_rules, rank, step)

struct RecorderConfig {
  std::string path;
  bool force = false;  ///< replace what is there
  PlatformType platform = PlatformType::CUDA;
  ProfilerConfig profiler;
};
FIELDS(RecorderConfig, path, force, platform, profiler)

/// What a recording has.
struct Recorded {
  std::string path;
  uint64_t records = 0, kernels = 0, collectives = 0, losses = 0;
  bool simulated = false;
  std::vector<std::string> notes;  ///< what the probe reported as wrong
};
FIELDS(Recorded, path, records, kernels, collectives, losses, simulated, notes)

}  // namespace tracesmith::sdk
