// What this server is, and the page.
#include <algorithm>
#include <filesystem>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
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
  model::ServerInfo info;
  info.version = TRACESMITH_VERSION;
  info.mode = sources_.cluster ? model::ServerMode::cluster : model::ServerMode::file;
  info.title = sources_.cluster ? "cluster" : sources_.options.title;
  info.role = access::roleName(r.role);
  info.now_ns = unixClock();
  if (sources_.cluster) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
    if (!status) return Answer::error(status.status());
    info.now_ns = (*status)->now_ns;
    info.simulated = std::any_of((*status)->nodes.begin(), (*status)->nodes.end(),
                                 [](const cluster::NodeStatus& n) { return n.simulated; });
  } else {
    double progress;
    if (Result<TracePtr> trace = sources_.traces.open("file", progress); trace && *trace)
      info.simulated = trace::isSimulated((*trace)->timeline().reader());
  }
  if (info.simulated) info.notes.push_back("simulated data, not a measurement");
  return Answer::json(model::toJson(info));
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
  model::SchemaAnswer answer;
  for (const trace::TableInfo& table : trace::tables()) {
    model::SchemaTable& out = answer.tables.emplace_back(model::SchemaTable{table.name, table.doc, {}});
    for (const trace::SqlColumn& c : trace::sqlColumns(table)) out.columns.push_back({c.name, c.type, c.doc});
  }
  return Answer::json(model::toJson(answer));
}

Answer InfoHandlers::openapi(const Request&) { return Answer::json(openApi(sources_.routes)); }

}  // namespace

std::unique_ptr<Handlers> makeInfoHandlers(const Sources& sources) { return std::make_unique<InfoHandlers>(sources); }

}  // namespace tracesmith::server
