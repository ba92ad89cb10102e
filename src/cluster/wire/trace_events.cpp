#include "cluster/wire/trace_events.hpp"

#include "model/event/trace_event.hpp"

namespace tracesmith::cluster {

using namespace trace;

namespace {

using PublicType = tracesmith::EventType;
using RowType = trace::EventType;

bool isEvents(const TableInfo& table) { return &table == &tableOf<EventRow>(); }

template <typename T>
T whole(int64_t slot) {
  return slot == kNull ? T{} : static_cast<T>(slot);
}

}  // namespace

std::vector<int> traceEventColumns(const TableInfo& table) {
  if (isEvents(table))
    return {events::ts,  events::dur,    events::type,   events::name,        events::node,  events::rank,
            events::tid, events::device, events::stream, events::correlation, events::bytes, events::launch};
  return {collectives::ts,         collectives::dur,         collectives::op,      collectives::comm,
          collectives::seq,        collectives::node,        collectives::rank,    collectives::bytes,
          collectives::group_size, collectives::device,      collectives::name,    collectives::stream,
          collectives::ts_enqueue, collectives::correlation, collectives::nccl_seq};
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
    e.type = model::publicType(static_cast<RowType>(row.slot(events::type)), e.name);
    e.thread_id = whole<uint32_t>(row.slot(events::tid));
    if (row.slot(events::bytes) != kNull)
      e.memory_params = MemoryParams{whole<uint64_t>(row.slot(events::bytes)), {}, {}};
    e.kernel_params = model::kernelParams(row.text(events::launch));
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
  note("seq", row.slot(collectives::seq));
  note("nccl_seq", row.slot(collectives::nccl_seq));
  note("nccl_ranks", row.slot(collectives::group_size));
  if (const std::string_view comm = row.text(collectives::comm); comm.data()) e.metadata["nccl_comm"] = comm;
  if (const std::string_view kernel = row.text(collectives::name); kernel.data()) e.metadata["kernel"] = kernel;
  return e;
}

int64_t rankOf(const TableInfo& table, const Row& row) {
  return row.slot(isEvents(table) ? static_cast<int>(events::rank) : collectives::rank);
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
