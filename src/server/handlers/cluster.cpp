// Nodes, sessions, clocks of the cluster.
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/http/fields.hpp"

namespace tracesmith::server {
namespace {

class ClusterHandlers final : public Handlers {
 public:
  explicit ClusterHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer nodes(const Request& r);
  Answer clock(const Request& r);
  Answer sessions(const Request& r);
  Answer startSession(const Request& r);
  Answer stopSession(const Request& r);
  Answer deleteSession(const Request& r);
  Answer removeNode(const Request& r);

  const Sources& sources_;
};

std::vector<Route> ClusterHandlers::routes() {
  return {
      {"GET",
       "/api/v1/nodes",
       kViewer,
       "Nodes, their GPUs, clocks and losses",
       {},
       bind(this, &ClusterHandlers::nodes)},
      {"GET",
       "/api/v1/nodes/{node}/clock",
       kViewer,
       "A node's clock over the last day",
       {},
       bind(this, &ClusterHandlers::clock)},
      {"GET", "/api/v1/sessions", kViewer, "Sessions", {}, bind(this, &ClusterHandlers::sessions)},
      {"POST",
       "/api/v1/sessions",
       kOperator,
       "Start a session",
       {kName,
        kLast,
        kDuration,
        {"freq_ms", "number", false, "interval of telemetry, in ms"},
        {"keep", "string", false, "everything (default), or summary"}},
       bind(this, &ClusterHandlers::startSession)},
      {"POST",
       "/api/v1/sessions/{id}/stop",
       kOperator,
       "Stop a session",
       {},
       bind(this, &ClusterHandlers::stopSession)},
      {"DELETE",
       "/api/v1/sessions/{id}",
       kAdmin,
       "Delete a session that has ended, with the data no other session needs",
       {},
       bind(this, &ClusterHandlers::deleteSession)},
      {"DELETE",
       "/api/v1/nodes/{node}",
       kAdmin,
       "Remove a node that is not connected; what it sent stays",
       {},
       bind(this, &ClusterHandlers::removeNode)},
  };
}

Answer ClusterHandlers::nodes(const Request&) {
  if (!sources_.cluster) return Answer::json(model::toJson(model::ClusterNodes{}));
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  return Answer::json(model::toJson<model::ClusterNodes>(**status));
}

Answer ClusterHandlers::clock(const Request& r) {
  const std::string node = r.name("node");
  model::ClockHistory history{node, sources_.live.clock(node)};
  if (history.points.empty())
    return Answer::error(404, "there is no node " + node.substr(0, 64) + " with a known clock");
  return Answer::json(model::toJson(history));
}

Answer ClusterHandlers::sessions(const Request&) {
  if (!sources_.cluster) return Answer::json(model::toJson(model::SessionList{}));
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(status.status());
  return Answer::json(model::toJson(model::SessionList{(*status)->sessions}));
}

Answer ClusterHandlers::startSession(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<Fields> fields = Fields::parse(r.body);
  if (!fields) return Answer::error(fields.status());
  cluster::StartOptions options;
  double freq_ms = 0;
  std::string keep = nameOf(options.keep);
  for (Status s : {fields->text("name", options.name), fields->number("last_s", 0, 1e6, options.last_s),
                   fields->number("duration_s", 0, 1e8, options.duration_s),
                   fields->number("freq_ms", 10, 3600000, freq_ms), fields->text("keep", keep)})
    if (!s) return Answer::error(s);
  fromName(keep, options.keep);
  if (keep != nameOf(options.keep)) return Answer::error(Status::invalid("keep is everything or summary"));
  options.freq_ms = static_cast<uint32_t>(freq_ms);
  Result<cluster::SessionInfo> session = sources_.cluster->client().start(options);
  std::string text;
  JsonWriter w(text);
  if (session) writeJson(w, *session);
  return audited(sources_, r, "start", options.name, session.status(),
                 session ? Answer::json(std::move(text), 201) : Answer::error(session.status()));
}

Answer ClusterHandlers::stopSession(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<std::vector<cluster::SessionInfo>> stopped = sources_.cluster->client().stop(r.name("id"));
  std::string text;
  JsonWriter w(text);
  if (stopped) writeJson(w, stopped->front());
  return audited(sources_, r, "stop", r.name("id"), stopped.status(),
                 stopped ? Answer::json(std::move(text)) : Answer::error(stopped.status()));
}

Answer ClusterHandlers::deleteSession(const Request& r) {
  if (!sources_.cluster) return noCluster();
  Result<cluster::DeletedSession> deleted = sources_.cluster->client().deleteSession(r.name("id"));
  std::string text;
  JsonWriter w(text);
  if (deleted) w.beginObject().field("id", deleted->id).field("freed_bytes", deleted->freed_bytes).endObject();
  return audited(sources_, r, "delete", r.name("id"), deleted.status(),
                 deleted ? Answer::json(std::move(text)) : Answer::error(deleted.status()));
}

Answer ClusterHandlers::removeNode(const Request& r) {
  if (!sources_.cluster) return noCluster();
  const Status removed = sources_.cluster->client().removeNode(r.name("node"));
  std::string text;
  JsonWriter(text).beginObject().field("node", r.name("node")).endObject();
  return audited(sources_, r, "remove-node", r.name("node"), removed,
                 removed ? Answer::json(std::move(text)) : Answer::error(removed));
}

}  // namespace

std::unique_ptr<Handlers> makeClusterHandlers(const Sources& sources) {
  return std::make_unique<ClusterHandlers>(sources);
}

}  // namespace tracesmith::server
