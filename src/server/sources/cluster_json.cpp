#include "server/sources/cluster_json.hpp"

#include "model/travel_json.hpp"

namespace tracesmith::server {

JsonWriter& timeField(JsonWriter& w, std::string_view key, int64_t ns) { return w.field(key, std::to_string(ns)); }

JsonWriter& endField(JsonWriter& w, std::string_view key, int64_t ns) {
  if (ns != 0) return timeField(w, key, ns);
  return w.key(key).null();
}

void writeNodes(JsonWriter& w, const cluster::ClusterStatus& status) {
  w.key("nodes").beginArray();
  for (const cluster::NodeStatus& n : status.nodes) writeJson(w, n);
  w.endArray();
  timeField(w, "now", status.now_ns);
  w.field("stored_bytes", status.stored_bytes).key("problem");
  status.problem.empty() ? w.null() : w.value(status.problem);
}

void writeSessions(JsonWriter& w, const std::vector<cluster::SessionInfo>& sessions) {
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : sessions) writeJson(w, s);
  w.endArray();
}

}  // namespace tracesmith::server
