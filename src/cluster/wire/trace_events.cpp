#include "cluster/wire/trace_events.hpp"

#include <algorithm>

namespace tracesmith::cluster {

using namespace trace;

namespace {

using PublicType = tracesmith::EventType;
using RowType = trace::EventType;

bool isEvents(const TableInfo& table) { return &table == &tableOf<EventRow>(); }

PublicType typeOf(RowType type, std::string_view name) {
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  switch (type) {
    case RowType::kernel:
    case RowType::graph:
      return PublicType::KernelComplete;
    case RowType::memcpy:
      return has("HtoD") ? PublicType::MemcpyH2D : has("DtoH") ? PublicType::MemcpyD2H : PublicType::MemcpyD2D;
    case RowType::memset:
      return PublicType::MemsetDevice;
    case RowType::runtime:
    case RowType::driver:
      if (has("LaunchKernel") || has("GraphLaunch")) return PublicType::KernelLaunch;
      if (has("StreamSynchronize")) return PublicType::StreamSync;
      if (has("DeviceSynchronize")) return PublicType::DeviceSync;
      if (has("EventRecord")) return PublicType::EventRecord;
      if (has("EventSynchronize")) return PublicType::EventSync;
      if (has("Malloc") || has("MemAlloc")) return PublicType::MemAlloc;
      if (has("Free")) return PublicType::MemFree;
      return PublicType::Custom;
    case RowType::sync:
      return has("tream") ? PublicType::StreamSync : PublicType::DeviceSync;
    case RowType::annotation:
    case RowType::gpu_annotation:
      return PublicType::RangeStart;
    case RowType::marker:
      return PublicType::Marker;
    default:
      return PublicType::Custom;
  }
}

template <typename T>
T whole(int64_t slot) {
  return slot == kNull ? T{} : static_cast<T>(slot);
}

}  // namespace

std::vector<int> traceEventColumns(const TableInfo& table) {
  if (isEvents(table))
    return {events::ts,  events::dur,    events::type,   events::name,        events::node,  events::rank,
            events::tid, events::device, events::stream, events::correlation, events::bytes, events::launch};
  return {collectives::ts,   collectives::dur,    collectives::op,         collectives::comm,       collectives::seq,
          collectives::node, collectives::rank,   collectives::bytes,      collectives::group_size, collectives::device,
          collectives::name, collectives::stream, collectives::ts_enqueue, collectives::correlation};
}

tracesmith::TraceEvent toTraceEvent(const TableInfo& table, const Row& row) {
  tracesmith::TraceEvent e;
  auto fill = [&](int ts, int dur, int device, int stream, int correlation) {
    e.timestamp = whole<Timestamp>(row.slot(ts));
    e.duration = whole<uint64_t>(row.slot(dur));
    e.device_id = whole<uint32_t>(row.slot(device));
    e.stream_id = whole<uint32_t>(row.slot(stream));
    e.correlation_id = whole<uint64_t>(row.slot(correlation));
  };
  auto note = [&](const char* key, int64_t slot) {
    if (slot != kNull) e.metadata[key] = std::to_string(slot);
  };
  if (isEvents(table)) {
    fill(events::ts, events::dur, events::device, events::stream, events::correlation);
    e.name = row.text(events::name);
    e.type = typeOf(static_cast<RowType>(row.slot(events::type)), e.name);
    e.thread_id = whole<uint32_t>(row.slot(events::tid));
    if (row.slot(events::bytes) != kNull)
      e.memory_params = MemoryParams{whole<uint64_t>(row.slot(events::bytes)), {}, {}};
    if (const std::string_view shape = row.text(events::launch); !shape.empty()) {
      const LaunchShape s = LaunchShape::parse(shape);
      auto known = [](int32_t v) { return static_cast<uint32_t>(std::max(v, 0)); };
      KernelParams p;
      p.grid_x = known(s.grid_x), p.grid_y = known(s.grid_y), p.grid_z = known(s.grid_z);
      p.block_x = known(s.block_x), p.block_y = known(s.block_y), p.block_z = known(s.block_z);
      if (s.registers >= 0) p.registers_per_thread = known(s.registers);
      if (s.shared_static >= 0 || s.shared_dynamic >= 0)
        p.shared_mem_bytes = known(s.shared_static) + known(s.shared_dynamic);
      e.kernel_params = p;
    }
    note("rank", row.slot(events::rank));
    return e;
  }
  fill(collectives::ts, collectives::dur, collectives::device, collectives::stream, collectives::correlation);
  const bool ran = row.slot(collectives::ts) != kNull;
  if (!ran) e.timestamp = whole<Timestamp>(row.slot(collectives::ts_enqueue));
  e.type = ran ? PublicType::NCCLComplete : PublicType::NCCLStart;
  e.name = row.text(collectives::op);
  if (row.slot(collectives::bytes) != kNull)
    e.memory_params = MemoryParams{whole<uint64_t>(row.slot(collectives::bytes)), {}, {}};
  note("rank", row.slot(collectives::rank));
  note("nccl_seq", row.slot(collectives::seq));
  note("nccl_ranks", row.slot(collectives::group_size));
  if (const std::string_view comm = row.text(collectives::comm); comm.data()) e.metadata["nccl_comm"] = comm;
  if (const std::string_view kernel = row.text(collectives::name); kernel.data()) e.metadata["kernel"] = kernel;
  return e;
}

int64_t rankOf(const TableInfo& table, const Row& row) {
  const int64_t rank = row.slot(isEvents(table) ? static_cast<int>(events::rank) : collectives::rank);
  return rank == kNull ? -1 : rank;
}

std::string_view nodeOf(const TableInfo& table, const Row& row) {
  return row.text(isEvents(table) ? static_cast<int>(events::node) : collectives::node);
}

uint64_t typeBit(const std::string& name) {
  RowType type;
  if (name == "collective") return kCollectiveBit;
  return parseEventType(name, type) ? 1ull << static_cast<int>(type) : 0;
}

uint64_t typeBit(const TableInfo& table, const Row& row) {
  return isEvents(table) ? 1ull << row.slot(events::type) : kCollectiveBit;
}

}  // namespace tracesmith::cluster
