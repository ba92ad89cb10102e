#include "server/sources/cluster_json.hpp"

#include <algorithm>

namespace tracesmith::server {

JsonWriter& timeField(JsonWriter& w, std::string_view key, int64_t ns) { return w.field(key, std::to_string(ns)); }

JsonWriter& endField(JsonWriter& w, std::string_view key, int64_t ns) {
  if (ns != 0) return timeField(w, key, ns);
  return w.key(key).null();
}

bool isSimulated(const cluster::NodeStatus& node) {
  return std::any_of(node.gpus.begin(), node.gpus.end(),
                     [](const cluster::DeviceStatus& gpu) { return gpu.name.starts_with("Simulated"); });
}

void writeNode(JsonWriter& w, const cluster::NodeStatus& n) {
  w.beginObject().field("node", n.node).field("hostname", n.hostname).field("address", n.address);
  w.field("version", n.version).field("state", !n.connected ? "disconnected" : n.healthy ? "healthy" : "unhealthy");
  w.field("silent_s", n.silent_s).field("simulated", isSimulated(n)).key("gpus").beginArray();
  for (const cluster::DeviceStatus& gpu : n.gpus)
    w.beginObject()
        .field("index", static_cast<int64_t>(gpu.index))
        .field("name", gpu.name)
        .field("memory_bytes", gpu.memory_bytes)
        .endObject();
  w.endArray().key("clock");
  if (n.clock_known)
    w.beginObject()
        .field("offset_ns", std::to_string(n.clock_offset_ns))
        .field("drift_ppm", n.clock_drift_ppm)
        .field("bound_ns", n.clock_bound_ns)
        .field("delay_ns", n.clock_delay_ns)
        .field("method", n.clock_method)
        .field("faults", n.clock_faults)
        .endObject();
  else
    w.null();
  w.field("processes", static_cast<int64_t>(n.processes)).field("captures", static_cast<int64_t>(n.captures));
  w.field("records", n.records).field("losses", n.losses).field("spool_bytes", n.spool_bytes);
  w.field("stored_bytes", n.stored_bytes).field("stored_events", n.stored_events).field("problem", n.problem);
  w.endObject();
}

void writeSession(JsonWriter& w, const cluster::SessionInfo& s) {
  w.beginObject().field("id", s.id).field("name", s.name).field("state", s.state);
  timeField(w, "start", s.start_ns);
  endField(w, "end", s.end_ns);
  w.field("freq_ms", static_cast<int64_t>(s.freq_ms)).field("bytes", s.bytes).key("nodes").beginArray();
  for (const cluster::SessionNode& n : s.nodes)
    w.beginObject().field("node", n.node).field("complete", n.complete).field("healthy", n.healthy).endObject();
  w.endArray().endObject();
}

void writeNodes(JsonWriter& w, const cluster::ClusterStatus& status) {
  w.key("nodes").beginArray();
  for (const cluster::NodeStatus& n : status.nodes) writeNode(w, n);
  w.endArray();
  timeField(w, "now", status.now_ns);
  w.field("stored_bytes", status.stored_bytes).field("problem", status.problem);
}

void writeSessions(JsonWriter& w, const std::vector<cluster::SessionInfo>& sessions) {
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : sessions) writeSession(w, s);
  w.endArray();
}

}  // namespace tracesmith::server
