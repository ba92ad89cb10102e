// What this server is, and the page.
#include <algorithm>
#include <filesystem>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "server/handlers/handlers.hpp"
#include "server/sources/cluster_json.hpp"
#include "sync/exchange.hpp"
#include "trace/sql_columns.hpp"

namespace tracesmith::server {
namespace {

class InfoHandlers final : public Handlers {
 public:
  explicit InfoHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer root(const Request& r);
  Answer health(const Request& r);
  Answer ready(const Request& r);
  Answer openapi(const Request& r);
  Answer info(const Request& r);
  Answer schema(const Request& r);

  const Sources& sources_;
};

std::vector<Route> InfoHandlers::routes() {
  return {
      {"GET", "/", kOpen, "The page for a browser, this list for a program", {}, bind(this, &InfoHandlers::root)},
      {"GET", "/api/v1/health", kOpen, "Whether the server is up", {}, bind(this, &InfoHandlers::health)},
      {"GET", "/api/v1/ready", kOpen, "Whether the server can work; 503 if not", {}, bind(this, &InfoHandlers::ready)},
      {"GET", "/api/v1/openapi.json", kOpen, "This document", {}, bind(this, &InfoHandlers::openapi)},
      {"GET",
       "/api/v1/info",
       kViewer,
       "Version and mode of this server, and your role",
       {},
       bind(this, &InfoHandlers::info)},
      {"GET", "/api/v1/schema", kViewer, "Tables and columns, for SQL", {}, bind(this, &InfoHandlers::schema)},
  };
}

/// A browser gets the page, a program the description.
Answer InfoHandlers::root(const Request& r) {
  if (r.accept.find("text/html") != std::string::npos) return pageFile(r);
  std::string text;
  JsonWriter w(text);
  w.beginObject().field("name", "TraceSmith").field("version", TRACESMITH_VERSION);
  w.field("mode", sources_.cluster ? "cluster" : "file").field("openapi", "/api/v1/openapi.json").key("endpoints");
  w.beginArray();
  for (const Route& route : sources_.routes) w.value(std::string(route.method) + " " + route.path);
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer InfoHandlers::info(const Request& r) {
  std::string text;
  JsonWriter w(text);
  bool simulated = false;
  int64_t now = unixClock();
  std::string title = sources_.cluster ? "cluster" : std::filesystem::path(sources_.trace_path).filename().string();
  if (sources_.cluster) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
    if (!status) return Answer::error(status.status());
    now = (*status)->now_ns;
    simulated = std::any_of((*status)->nodes.begin(), (*status)->nodes.end(),
                            [](const cluster::NodeStatus& n) { return n.simulated; });
  } else {
    double progress;
    if (Result<TracePtr> trace = sources_.traces.open("file", progress); trace && *trace)
      simulated = trace::isSimulated((*trace)->timeline().reader());
  }
  w.beginObject().field("version", TRACESMITH_VERSION).field("mode", sources_.cluster ? "cluster" : "file");
  w.field("title", title).field("simulated", simulated).field("role", access::roleName(r.role));
  timeField(w, "now", now).key("notes").beginArray();
  if (simulated) w.value("simulated data, not a measurement");
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer InfoHandlers::health(const Request&) { return Answer::json("{\"status\":\"ok\"}"); }

Answer InfoHandlers::ready(const Request&) {
  if (!sources_.cluster) return Answer::json("{\"status\":\"ok\"}");
  Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
  if (!status) return Answer::error(503, status.status().message());
  if (!(*status)->problem.empty()) return Answer::error(503, (*status)->problem);
  return Answer::json("{\"status\":\"ok\"}");
}

Answer InfoHandlers::schema(const Request&) {
  std::string text;
  JsonWriter w(text);
  w.beginObject().key("tables").beginArray();
  for (const trace::TableInfo& table : trace::tables()) {
    w.beginObject().field("name", table.name).field("doc", table.doc).key("columns").beginArray();
    for (const trace::SqlColumn& c : trace::sqlColumns(table))
      w.beginObject().field("name", c.name).field("type", c.type).field("doc", c.doc).endObject();
    w.endArray().endObject();
  }
  w.endArray().endObject();
  return Answer::json(std::move(text));
}

Answer InfoHandlers::openapi(const Request&) { return Answer::json(openApi(sources_.routes)); }

}  // namespace

std::unique_ptr<Handlers> makeInfoHandlers(const Sources& sources) { return std::make_unique<InfoHandlers>(sources); }

}  // namespace tracesmith::server
