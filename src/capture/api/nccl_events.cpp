// The operations of NCCLTracker as events, and matched with the events of a profiler.
#include <map>
#include <tuple>

#include "tracesmith/capture/nccl_tracker.hpp"

namespace tracesmith::cluster {
namespace {

void addNumbers(const NCCLOperation& o, TraceEvent& e) {
  e.metadata["seq"] = std::to_string(o.op_id);
  if (o.nccl_seq) e.metadata["nccl_seq"] = std::to_string(*o.nccl_seq);
  if (o.group_id) e.metadata["nccl_group"] = std::to_string(*o.group_id);
}

}  // namespace

std::vector<TraceEvent> NCCLTracker::toTraceEvents() const {
  std::vector<TraceEvent> events;
  for (const NCCLOperation& o : getOperations()) {
    TraceEvent e;
    e.type = o.in_flight ? EventType::NCCLStart : EventType::NCCLComplete;
    e.timestamp = o.in_flight ? o.enqueue_time : o.start_time;
    e.duration = o.duration_ns;
    e.device_id = o.device_id;
    e.stream_id = static_cast<uint32_t>(o.cuda_stream);
    e.correlation_id = o.correlation_id;
    e.name = std::string("nccl") + ncclOpName(o.op_type);
    e.memory_params = MemoryParams{o.data_size, {}, {}};
    e.metadata["nccl_comm"] = std::to_string(o.comm_id);
    addNumbers(o, e);
    e.metadata["rank"] = std::to_string(o.rank);
    if (o.simulated) e.metadata["simulated"] = "true";
    events.push_back(std::move(e));
  }
  return events;
}

void NCCLTracker::correlateWithGPUEvents(std::vector<TraceEvent>& events) const {
  // A kernel may run several operations: the first one stands for it.
  std::map<std::tuple<uint32_t, uint64_t, Timestamp>, NCCLOperation> by_kernel;
  for (const NCCLOperation& o : getOperations())
    if (!o.in_flight) by_kernel.try_emplace({o.device_id, o.correlation_id, o.start_time}, o);
  for (TraceEvent& e : events) {
    if (e.type != EventType::KernelComplete) continue;
    auto found = by_kernel.find({e.device_id, e.correlation_id, e.timestamp});
    if (found == by_kernel.end()) continue;
    e.metadata["nccl_op"] = ncclOpName(found->second.op_type);
    e.metadata["nccl_comm"] = std::to_string(found->second.comm_id);
    addNumbers(found->second, e);
    e.metadata["nccl_bytes"] = std::to_string(found->second.data_size);
  }
}

}  // namespace tracesmith::cluster
