// Nodes, sessions, clocks of the cluster.
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/app.hpp"
#include "server/cluster_json.hpp"
#include "server/fields.hpp"

namespace tracesmith::server {

Answer App::nodes(const Request&) {
  if (!cluster()) return Answer::json("{\"nodes\":[],\"now\":null,\"stored_bytes\":0,\"problem\":null}");
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject();
  writeNodes(w, **status);
  w.endObject();
  return Answer::json(std::move(text));
}

Answer App::clock(const Request& r) {
  const std::string node = r.name("node");
  std::string text;
  JsonWriter w(text);
  std::lock_guard lock(live_mutex_);
  auto it = clocks_.find(node);
  if (it == clocks_.end()) return Answer::error(404, "there is no node " + node.substr(0, 64) + " with a known clock");
  w.beginObject().field("node", node).key("points").beginArray();
  for (const ClockPoint& p : it->second) {
    w.beginObject();
    timeField(w, "t", p.t)
        .field("offset_ns", std::to_string(p.offset_ns))
        .field("drift_ppm", p.drift_ppm)
        .field("bound_ns", p.bound_ns)
        .endObject();
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer App::sessions(const Request&) {
  if (!cluster()) return Answer::json("{\"sessions\":[]}");
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = snapshot();
  if (!status) return Answer::error(status.status());
  std::string text;
  JsonWriter w(text);
  w.beginObject();
  writeSessions(w, (*status)->sessions);
  w.endObject();
  return Answer::json(std::move(text));
}

Answer App::startSession(const Request& r) {
  if (!cluster()) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  double freq_ms = 0;
  for (Status s :
       {fields->text("name", options.name), fields->number("last_s", 0, 1e6, options.last_s),
        fields->number("duration_s", 0, 1e8, options.duration_s), fields->number("freq_ms", 10, 3600000, freq_ms)})
    if (!s) return Answer::error(s);
  options.freq_ms = static_cast<uint32_t>(freq_ms);
  Result<cluster::SessionInfo> session = client_->start(options);
  std::string text;
  JsonWriter w(text);
  if (session) writeJson(w, *session);
  return audited(r, "start", options.name, session.status(),
                 session ? Answer::json(std::move(text), 201) : Answer::error(session.status()));
}

Answer App::stopSession(const Request& r) {
  if (!cluster()) return noCluster();
  Result<std::vector<cluster::SessionInfo>> stopped = client_->stop(r.name("id"));
  std::string text;
  JsonWriter w(text);
  if (stopped) writeJson(w, stopped->front());
  return audited(r, "stop", r.name("id"), stopped.status(),
                 stopped ? Answer::json(std::move(text)) : Answer::error(stopped.status()));
}

}  // namespace tracesmith::server
