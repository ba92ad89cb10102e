// What a trace holds, as the public API hands it out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tracesmith/capture/nccl_tracker.hpp"
#include "tracesmith/cluster/node_aggregator.hpp"
#include "tracesmith/hardware/gpu_topology.hpp"
#include "tracesmith/trace/scan.hpp"

namespace tracesmith::cluster {

/// The communication operations, in order of time; those in flight last. Times are on `clock` where there is one.
Result<std::vector<NCCLOperation>> ncclOperations(const trace::Reader& reader, const trace::CommonClock* clock,
                                                  const std::function<bool(uint64_t comm)>& wanted = {});

/// How GPUs are connected, as the trace says it. GPUs of several nodes are numbered one after another, nodes by name.
Result<GPUTopologyInfo> recordedTopology(const trace::Reader& reader);

/// By node: the counts of a capture (events_per_gpu, nccl_operations, nccl_bytes).
Result<std::map<std::string, NodeAggregator::Statistics>> countCapture(const trace::Reader& reader);

}  // namespace tracesmith::cluster
