// Requirement 2's HTTP API, in its words: clients are our nodes, profiling is a session.
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"
#include "server/fields.hpp"

namespace tracesmith::server {
namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

void writeProfiling(JsonWriter& w, const cluster::SessionInfo& s) {
  w.beginObject().field("name", s.name).field("session_id", s.id).field("is_active", s.state == "recording");
  w.field("state", s.state).field("start_time", seconds(s.start_ns)).key("end_time");
  s.end_ns ? w.value(seconds(s.end_ns)) : w.null();
  w.field("freq", static_cast<int64_t>(s.freq_ms)).field("bytes", s.bytes).key("clients").beginArray();
  for (const cluster::SessionNode& n : s.nodes) w.value(n.node);
  w.endArray().endObject();
}

Answer success(const std::string& message, const std::vector<cluster::SessionInfo>& sessions) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("success", true).field("message", message);
  if (sessions.size() == 1) w.field("name", sessions[0].name).field("session_id", sessions[0].id);
  w.key("sessions").beginArray();
  for (const cluster::SessionInfo& s : sessions) writeProfiling(w, s);
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

}  // namespace

Answer App::status(const Request&) {
  if (!cluster()) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  int64_t connected = 0, unhealthy = 0;
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    connected += n.connected;
    unhealthy += !n.healthy;
  }
  w.beginObject().field("status", "running").field("version", (*status)->version);
  w.key("active_sessions").beginArray();
  bool active = false;
  for (const cluster::SessionInfo& s : (*status)->sessions)
    if (s.state == "recording") {
      writeProfiling(w, s);
      active = true;
    }
  w.endArray().field("is_profiling", active);
  w.field("connected_clients", connected).field("unhealthy_clients", unhealthy);
  w.field("total_sessions", static_cast<uint64_t>((*status)->sessions.size())).endObject();
  return Answer::json(std::move(text));
}

Answer App::clients(const Request&) {
  if (!cluster()) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("clients").beginArray();
  for (const cluster::NodeStatus& n : (*status)->nodes) {
    w.beginObject().field("client_id", n.node).field("hostname", n.hostname).field("address", n.address);
    w.field("connected", n.connected).field("healthy", n.healthy).key("last_seen_s");
    n.silent_s ? w.value(*n.silent_s) : w.null();
    w.key("gpus").beginArray();
    for (const cluster::DeviceStatus& gpu : n.gpus) {
      w.beginObject().field("gpu_id", n.hostname + ":" + std::to_string(gpu.index) + ":" + gpu.name);
      writeFields(w, gpu);
      w.endObject();
    }
    w.endArray().endObject();
  }
  w.endArray().field("total", static_cast<uint64_t>((*status)->nodes.size())).endObject();
  return Answer::json(std::move(text));
}

Answer App::profilingSessions(const Request&) {
  if (!cluster()) return noCluster();
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("sessions").beginArray();
  for (const cluster::SessionInfo& s : (*status)->sessions) writeProfiling(w, s);
  w.endArray().field("total", static_cast<uint64_t>((*status)->sessions.size())).endObject();
  return Answer::json(std::move(text));
}

Answer App::profilingStart(const Request& r) {
  if (!cluster()) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  double freq = 0;
  for (Status s : {fields->text("name", options.name), fields->number("freq", 10, 3600000, freq)})
    if (!s) return Answer::error(s);
  options.freq_ms = static_cast<uint32_t>(freq);
  Result<cluster::SessionInfo> session = client_->start(options);
  return audited(r, "start", options.name, session.status(),
                 session ? success("profiling " + session->name, {*session}) : Answer::error(session.status()));
}

Answer App::profilingStop(const Request& r) {
  if (!cluster()) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  std::string name;
  if (Status s = fields->text("name", name); !s) return Answer::error(s);
  Result<std::vector<cluster::SessionInfo>> stopped = client_->stop(name);
  return audited(
      r, "stop", name, stopped.status(),
      stopped ? success("stopped " + std::to_string(stopped->size()), *stopped) : Answer::error(stopped.status()));
}

/// The last seconds, the next ones, or both: a session that ends by itself.
Answer App::profilingRecord(const Request& r) {
  if (!cluster()) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  for (Status s : {fields->text("name", options.name), fields->number("last_s", 0, 1e6, options.last_s),
                   fields->number("duration_s", 0, 1e8, options.duration_s)})
    if (!s) return Answer::error(s);
  if (options.last_s == 0 && options.duration_s == 0)
    return Answer::error(400, "say how long: duration_s for the next seconds, last_s for those that were");
  Result<cluster::SessionInfo> session = client_->start(options);
  return audited(r, "record", options.name, session.status(),
                 session ? success("recording " + session->name, {*session}) : Answer::error(session.status()));
}

}  // namespace tracesmith::server
